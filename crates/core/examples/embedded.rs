//! The engine inside another program, without a server and without a network: a prompt is admitted, the engine is
//! closed, and another one over the same directory still has it.
//!
//! ```sh
//! cargo run -p abide-core --example embedded
//! ```
#![expect(clippy::print_stdout, reason = "an example shows its output")]

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

use abide_core::app::{App, AppOptions};
use abide_core::session::{CreateSession, PromptSession};
use abide_core::store::{SeqRange, View};
use abide_core::world::World;
use abide_schema::location::LocationRef;

/// Opens an engine whose user, configuration and data all are in `home`.
async fn open(home: &Path) -> Result<App, Box<dyn Error>> {
    let path = std::env::var_os("PATH").unwrap_or_default().to_string_lossy().into_owned();
    let environment = BTreeMap::from([("HOME".to_owned(), home.display().to_string()), ("PATH".to_owned(), path)]);
    let mut options = AppOptions::new(World::real().with_environment(environment));
    options.data_dir = Some(home.join("data"));
    Ok(App::open(options).await?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let home = tempfile::tempdir()?;

    let app = open(home.path()).await?;
    let location = Some(LocationRef::new(home.path().display().to_string()));
    let session = app
        .sessions()
        .create(CreateSession { location, title: Some("Embedded".to_owned()), ..Default::default() })
        .await?;
    // Admitted, but nothing runs: that would need a model.
    let prompt = PromptSession { text: "Say hello".to_owned(), resume: Some(false), ..Default::default() };
    app.sessions().prompt(&session.id, prompt).await?;
    app.close().await;
    drop(app);

    let app = open(home.path()).await?;
    println!("{} {:?}", session.id, app.sessions().get(&session.id).await?.title);
    for event in app.store().read(&session.id, SeqRange::default(), View::Log, 100).await?.events {
        println!("{:4} {}", event.seq.0, event.data.def().name);
    }
    println!("{} prompt waits", app.store().pending_inputs(&session.id).await?.len());
    app.close().await;
    Ok(())
}
