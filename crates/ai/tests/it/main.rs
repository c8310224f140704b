//! Tests through the public face of the crate: fixtures in, events and bodies out.

#[cfg(test)]
mod cases;
#[cfg(test)]
mod requests;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod support;
