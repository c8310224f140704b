//! Named providers: endpoint, auth defaults and route set-up of each.
