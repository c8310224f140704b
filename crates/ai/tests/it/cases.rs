//! Troubles that users of models have in real life: small inputs with the outcome that is right.
//!
//! | inputs | tests |
//! | --- | --- |
//! | `cases/stream`, one file a trouble | `stream::streams` |
//! | `cases/request`, one file a history | `request::*`; a wide picture in a crowd: `scenarios::toolkit` |
//! | `cases/http-errors.json` | `rows::http_errors` |
//! | waits that headers ask for | `rows::retry_after` (the waits themselves are the session's) |
//! | `cases/usage.json` | `rows::usage` (prices are the session's) |
//! | `cases/schema`, `cases/property-names.json` | `rows::schemas`, `rows::schemas_that_are_hardly_there`, `rows::choice_at_the_top_…`, `rows::property_names` |

mod request;
mod rows;
mod stream;
