//! Prints the route table; with the feature `client` and an address, asks that server where it is.
//!
//! ```sh
//! cargo run -p abide-protocol --example routes
//! cargo run -p abide-protocol --features client --example routes -- http://127.0.0.1:4096
//! ```
#![expect(clippy::print_stdout, reason = "an example shows its output")]

use std::error::Error;

use abide_protocol::ROUTES;
use abide_protocol::route::Served;

fn main() -> Result<(), Box<dyn Error>> {
    if let Some(url) = std::env::args().nth(1) {
        return ask(url);
    }
    for route in ROUTES {
        let served = match route.served {
            Served::Yes => "",
            Served::NotYet => "  (not yet)",
        };
        println!("{:6} {:60} {}{served}", route.method.as_str(), route.path, route.doc.trim());
    }
    Ok(())
}

#[cfg(feature = "client")]
fn ask(url: String) -> Result<(), Box<dyn Error>> {
    use abide_protocol::client::{Client, ClientOptions};

    let client = Client::new(&ClientOptions { url, ..ClientOptions::default() })?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let location = runtime.block_on(client.location())?;
    println!("{} (project {})", location.directory, location.project.id);
    Ok(())
}

#[cfg(not(feature = "client"))]
fn ask(url: String) -> Result<(), Box<dyn Error>> {
    Err(format!("asking {url} needs --features client").into())
}
