//! Tests through the public face of the crate: fixtures in, events and bodies out.

#[cfg(test)]
mod aws;
#[cfg(test)]
mod cases;
#[cfg(test)]
mod chat_requests;
#[cfg(test)]
mod client;
#[cfg(test)]
mod clouds;
#[cfg(test)]
mod executor;
#[cfg(test)]
mod framing;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod guide;
#[cfg(test)]
mod histories;
#[cfg(test)]
mod mistral;
#[cfg(test)]
mod providers;
#[cfg(test)]
mod recorded;
#[cfg(test)]
mod recorder;
#[cfg(test)]
mod recorder_modes;
#[cfg(test)]
mod requests;
#[cfg(test)]
mod scenarios;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod support;
#[cfg(test)]
mod tools;
#[cfg(test)]
mod websocket;
