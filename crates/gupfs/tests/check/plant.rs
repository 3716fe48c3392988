//! Opens a stopped store to damage it.

use crate::running::TestStore;
use bytes::Bytes;
use gupfs_namespace::{Inode, KeyRange, ParsedKey, Record, RecordKey, RecordKind};
use gupfs_platform::{Disk, Platform};
use gupfs_proto::{ClusterId, Incarnation, InodeId, ObjectId, OstId, VirtualShard};
use gupfs_store::index::{Index, OPEN_TABLES_MIN};
use gupfs_store::kv::{Kv, KvOptions};
use gupfs_store::log::{LogOptions, StopMode, StoreId};
use gupfs_store::object::{Objects, OpenFileLimits, TargetId};
use std::path::PathBuf;

/// The contents of the marker.
struct Marker {
    cluster: ClusterId,
    metadata: Incarnation,
    shards: u16,
}

fn marker(test_store: &TestStore) -> Marker {
    let text = std::fs::read_to_string(test_store.store().join("gupfs.toml")).unwrap();
    let table: toml::Table = text.parse().unwrap();
    let hex = |key: &str| u128::from_str_radix(table[key].as_str().unwrap(), 16).unwrap();
    Marker {
        cluster: ClusterId(hex("cluster")),
        metadata: Incarnation(hex("metadata") as u64),
        shards: table["virtual_shards"].as_integer().unwrap() as u16,
    }
}

/// Records of the metadata store, to be changed.
pub struct Records {
    kv: Kv,
    shards: u16,
}

impl Records {
    pub fn get<R: Record>(&self, key: &RecordKey) -> R {
        let value = self
            .kv
            .get(key.as_bytes())
            .unwrap()
            .expect("the record is there");
        R::decode(&value).unwrap()
    }

    pub fn put<R: Record>(&self, key: &RecordKey, record: &R) {
        self.change(key, Some(record.encode()));
    }

    pub fn put_raw(&self, key: &RecordKey, value: &'static [u8]) {
        self.change(key, Some(Bytes::from_static(value)));
    }

    pub fn remove(&self, key: &RecordKey) {
        self.change(key, None);
    }

    pub fn change_inode(&self, ino: InodeId, change: impl FnOnce(&mut Inode)) {
        let key = RecordKey::inode(ino);
        let mut inode: Inode = self.get(&key);
        change(&mut inode);
        self.put(&key, &inode);
    }

    /// The key of an inode's first name.
    pub fn entry(&self, wanted: &str) -> RecordKey {
        let found = self.keys(RecordKind::Entry).into_iter().find(|key| {
            matches!(key.parse(), Some(ParsedKey::Entry { name, .. }) if name.as_bytes() == wanted.as_bytes())
        });
        found.expect("the name is there")
    }

    pub fn keys(&self, kind: RecordKind) -> Vec<RecordKey> {
        let bytes = |key: &RecordKey| Bytes::copy_from_slice(key.as_bytes());
        (0..self.shards)
            .map(|shard| KeyRange::of_kind(VirtualShard(shard), kind))
            .flat_map(|range| {
                self.kv
                    .scan(bytes(&range.from), bytes(&range.to), 10_000)
                    .unwrap()
            })
            .map(|(key, _)| RecordKey::from_bytes(&key))
            .collect()
    }

    fn change(&self, key: &RecordKey, value: Option<Bytes>) {
        self.kv
            .stage(0, vec![(Bytes::copy_from_slice(key.as_bytes()), value)])
            .unwrap();
    }
}

pub fn in_records(test_store: &TestStore, plant: impl FnOnce(&Records)) {
    let marker = marker(test_store);
    run(async {
        let mds = test_store.store().join("mds");
        let index = Index::open_fjall(&mds.join("index"), OPEN_TABLES_MIN).unwrap();
        let store = StoreId {
            cluster: marker.cluster,
            incarnation: marker.metadata,
        };
        let options = KvOptions::new(LogOptions::new(store));
        let disk = Disk::real(mds.join("log")).unwrap();
        let (kv, _) = Kv::open(disk, index, options, Platform::real())
            .await
            .unwrap();
        let records = Records {
            kv,
            shards: marker.shards,
        };
        plant(&records);
        records.kv.stop(StopMode::Clean).await.unwrap();
    });
}

pub fn in_objects<F: Future<Output = ()>>(
    test_store: &TestStore,
    ost: u16,
    plant: impl FnOnce(Objects) -> F,
) {
    let cluster = marker(test_store).cluster;
    run(async {
        let disk = Disk::real(test_store.store().join(format!("ost{ost}"))).unwrap();
        let whose = TargetId {
            cluster,
            ost: OstId(ost),
        };
        let objects = Objects::open(disk, Platform::real(), whose, OpenFileLimits::MIN)
            .await
            .unwrap();
        objects.serve_unadopted().await.unwrap();
        plant(objects.clone()).await;
        objects.stop().await.unwrap();
    });
}

/// The data file of an inode's only object, with its OST.
pub fn data_file(test_store: &TestStore, ino: InodeId) -> (u16, ObjectId, PathBuf) {
    for ost in 0..2 {
        let top = test_store.store().join(format!("ost{ost}/objects"));
        for dir in std::fs::read_dir(top).unwrap() {
            for file in std::fs::read_dir(dir.unwrap().path()).unwrap() {
                let path = file.unwrap().path();
                let name = path.file_name().unwrap().to_str().unwrap();
                if let Ok(object) = name.parse::<ObjectId>()
                    && object.ino == ino
                {
                    return (ost, object, path);
                }
            }
        }
    }
    panic!("inode {ino} has no object");
}

fn run(work: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(work);
}
