//! Lines to object servers, one for each address.

use crate::Identity;
use gupfs_proto::{ClusterId, data};
use gupfs_rpc::{Hosts, Line, LineOptions, LineStatus, Myself, Peer};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

type Ost = Peer<data::Request, data::Reply>;

/// A line is open as long as somebody has a peer of it.
pub struct Lines {
    identity: Identity,
    me: Myself,
    cluster: ClusterId,
    /// Where the metadata server is: what an empty address stands for.
    home: String,
    lines: Mutex<BTreeMap<String, Weak<Line>>>,
}

impl Lines {
    pub fn new(identity: &Identity, me: Myself, cluster: ClusterId, home: &str) -> Arc<Lines> {
        Arc::new(Lines {
            identity: identity.clone(),
            me,
            cluster,
            home: home.to_string(),
            lines: Mutex::default(),
        })
    }

    fn line(&self, address: &str) -> Arc<Line> {
        let address = match address {
            "" => &self.home,
            other => other,
        };
        let mut lines = self.lines.lock();
        lines.retain(|_, line| line.strong_count() > 0);
        if let Some(line) = lines.get(address).and_then(Weak::upgrade) {
            return line;
        }
        let line = Line::open(LineOptions {
            to: address.to_string(),
            whom: "an object server".into(),
            net: self.identity.net.clone(),
            platform: self.identity.platform.clone(),
            me: self.me.clone(),
            cluster: Some(self.cluster),
            key: self.identity.key.clone(),
            tls: self.identity.tls.clone(),
            // Whoever asks has patience of his own; what he gives up must not be done later.
            patience: None,
            fence: true,
            hosts: Hosts::none(),
        });
        lines.insert(address.to_string(), Arc::downgrade(&line));
        line
    }

    pub fn status(&self) -> Vec<LineStatus> {
        let lines = self.lines.lock();
        let open = lines.values().filter_map(Weak::upgrade);
        open.map(|line| line.status()).collect()
    }
}

impl gupfs_client::Dial for Lines {
    fn dial(&self, address: &str) -> Ost {
        self.line(address).peer()
    }
}

impl gupfs_mds::targets::Dial for Lines {
    fn dial(&self, address: &str) -> Ost {
        self.line(address).peer()
    }
}
