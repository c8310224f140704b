//! One suite for all stores, and what is particular to each.

pub(super) mod build;
mod log;
mod memory;
mod operational;
mod projections;
mod property;
mod replay;
mod tails;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use abide_schema::Timestamp;

use super::{DurabilityLevel, MemoryStore, SqliteStore, Store, StoreOptions};
use crate::world::{Clock, Entropy, World};

/// A clock that moves one millisecond at each look, and numbers instead of randomness.
struct Steps {
    time: AtomicI64,
    number: AtomicU64,
}

impl Clock for Steps {
    fn now(&self) -> Timestamp {
        Timestamp(1_790_000_000_000 + self.time.fetch_add(1, Ordering::Relaxed))
    }
}

impl Entropy for Steps {
    fn next(&self) -> u64 {
        self.number.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
}

fn world() -> World {
    world_of(0)
}

/// The world of the `process`-th process.
fn world_of(process: u64) -> World {
    let steps = Arc::new(Steps { time: AtomicI64::new(0), number: AtomicU64::new(process << 32) });
    World::new(Arc::<Steps>::clone(&steps), steps, std::collections::BTreeMap::new())
}

/// A place where stores live; each `open` is another process.
trait Disk: Send + Sync {
    fn open(&self) -> Arc<dyn Store>;
}

struct MemoryDisk(MemoryStore);

impl Disk for MemoryDisk {
    fn open(&self) -> Arc<dyn Store> {
        Arc::new(self.0.attach())
    }
}

struct SqliteDisk {
    directory: tempfile::TempDir,
    durability: DurabilityLevel,
    n_processes: AtomicU64,
}

impl SqliteDisk {
    fn new(durability: DurabilityLevel) -> Self {
        Self { directory: tempfile::tempdir().unwrap(), durability, n_processes: AtomicU64::new(0) }
    }

    fn open_sqlite(&self) -> SqliteStore {
        let world = world_of(self.n_processes.fetch_add(1, Ordering::Relaxed));
        let mut options = StoreOptions::new(self.directory.path().join("data"), world);
        options.durability = self.durability;
        SqliteStore::open(options).unwrap()
    }
}

impl Disk for SqliteDisk {
    fn open(&self) -> Arc<dyn Store> {
        Arc::new(self.open_sqlite())
    }
}

fn memory() -> Box<dyn Disk> {
    Box::new(MemoryDisk(MemoryStore::new(world())))
}

fn process() -> Box<dyn Disk> {
    Box::new(SqliteDisk::new(DurabilityLevel::Process))
}

fn power() -> Box<dyn Disk> {
    Box::new(SqliteDisk::new(DurabilityLevel::Power))
}

/// Makes one test for each store of each function.
macro_rules! suite {
    ($( $name:ident ),* $(,)?) => {
        mod on_memory {
            $( #[tokio::test] async fn $name() { super::$name(crate::store::tests::memory()).await; } )*
        }
        mod on_sqlite {
            $( #[tokio::test] async fn $name() { super::$name(crate::store::tests::process()).await; } )*
        }
        mod on_sqlite_synced {
            $( #[tokio::test] async fn $name() { super::$name(crate::store::tests::power()).await; } )*
        }
    };
}
use suite;
