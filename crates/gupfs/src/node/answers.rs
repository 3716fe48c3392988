//! What a running node answers to other commands.

use super::StopRequest;
use super::layout::{ComponentView, LayoutView, ObjectState, ObjectView};
use super::roles::Roles;
use super::status;
use crate::commands::df::OstSpace;
use crate::commands::sync::Synced;
use crate::control::{Answerer, Ask, Reply};
use crate::home::{Home, Marker};
use crate::metrics::Calls;
use gupfs_mount::Mount;
use gupfs_proto::data::{self, Answer, Op};
use gupfs_proto::layout::LayoutRule;
use gupfs_proto::{
    Caller, FileKind, InodeId, Layout, MapEpoch, ObjectId, OstId, Presence, Refusal,
};
use gupfs_store::object::TargetState;
use gupfs_world::{BootTime, World};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// Everything an answer may need.
pub struct Answers {
    pub home: Home,
    pub marker: Marker,
    pub world: World,
    pub started: BootTime,
    pub roles: Arc<Roles>,
    pub mount: Arc<Mount>,
    pub calls: Arc<Calls>,
    pub stop: mpsc::Sender<StopRequest>,
}

impl Answerer for Answers {
    async fn answer(&self, ask: Ask) -> Reply {
        match ask {
            Ask::Status => Reply::good(&status::of(self).await),
            Ask::Df => Reply::good(&self.df().await),
            Ask::Sync => self.sync().await,
            Ask::LayoutGet { ino } => told(self.layout(ino).await),
            Ask::LayoutSet { ino, rule } => told(self.set_layout(ino, rule).await),
            Ask::Stop { force } => self.stop(force).await,
        }
    }
}

/// A refusal in the words that the user of a path expects.
fn told(outcome: Result<LayoutView, Refusal>) -> Reply {
    match outcome {
        Ok(view) => Reply::good(&view),
        Err(refusal) => Reply::Bad(format!("refused: {refusal}")),
    }
}

impl Answers {
    async fn df(&self) -> Vec<OstSpace> {
        let status = self.roles.oss.status().await;
        status
            .targets
            .into_iter()
            .map(|target| OstSpace {
                ost: target.ost.0,
                down: match target.state {
                    TargetState::Serving => None,
                    TargetState::Down(why) => Some(why),
                },
                total: target.total,
                free: target.free,
                available: target.available,
                objects: target.objects,
                device: std::fs::metadata(self.home.ost(target.ost)).map_or(0, |found| found.dev()),
            })
            .collect()
    }

    async fn sync(&self) -> Reply {
        match self.roles.client.sync_all().await {
            Ok(()) => Reply::good(&Synced {
                change: self.roles.client.status().durable,
            }),
            Err(refusal) => Reply::Bad(format!("not everything could be synced: {refusal}")),
        }
    }

    async fn layout(&self, ino: InodeId) -> Result<LayoutView, Refusal> {
        let root = Caller::root();
        let client = &self.roles.client;
        let attr = client.getattr(&root, ino).await?;
        match attr.kind {
            FileKind::Directory => {
                let (rule, inherited) = client.layout_rule(&root, ino).await?;
                Ok(LayoutView::Directory { rule, inherited })
            }
            FileKind::Regular => {
                let layout = client.layout(ino).await?;
                Ok(LayoutView::File {
                    size: attr.size,
                    inline: (layout.is_empty() && attr.size > 0).then_some(attr.size),
                    components: self.components(ino, &layout).await,
                })
            }
            _ => Ok(LayoutView::Other),
        }
    }

    async fn set_layout(
        &self,
        ino: InodeId,
        rule: Option<LayoutRule>,
    ) -> Result<LayoutView, Refusal> {
        let root = Caller::root();
        self.roles.client.set_layout_rule(&root, ino, rule).await?;
        self.layout(ino).await
    }

    async fn components(&self, ino: InodeId, layout: &Layout) -> Vec<ComponentView> {
        let mut views = Vec::with_capacity(layout.components.len());
        for component in &layout.components {
            let mut objects = Vec::with_capacity(component.targets.len());
            for (stripe, ost) in component.targets.iter().enumerate() {
                let object = component.object(ino, stripe);
                objects.push(ObjectView {
                    ost: ost.0,
                    object: object.to_string(),
                    state: self
                        .object(*ost, object, component.presence.get(stripe))
                        .await,
                });
            }
            views.push(ComponentView {
                from: component.from.0,
                to: Some(component.to.0).filter(|to| *to != u64::MAX),
                unit: component.unit.0,
                objects,
            });
        }
        views
    }

    async fn object(&self, ost: OstId, object: ObjectId, presence: Presence) -> ObjectState {
        let request = data::Request {
            session: self.roles.client.session(),
            map_epoch: MapEpoch(0),
            job: 0,
            ost,
            op: Op::Stat { object },
        };
        let answer = match self.roles.ost(ost) {
            Some(peer) => peer.call(request).await,
            None => return ObjectState::Unknown(format!("there is no ost{ost}")),
        };
        match (answer, presence) {
            (Ok(Answer::Stat(Some(stat))), _) => ObjectState::There(stat),
            (Ok(Answer::Stat(None)), Presence::Present) => ObjectState::Missing,
            (Ok(Answer::Stat(None)), _) => ObjectState::Hole,
            (Ok(other), _) => {
                ObjectState::Unknown(format!("an answer to another question: {other:?}"))
            }
            (Err(refusal), _) => ObjectState::Unknown(refusal.to_string()),
        }
    }

    async fn stop(&self, force: bool) -> Reply {
        let (answer, answered) = oneshot::channel();
        if self.stop.send(StopRequest { force, answer }).await.is_err() {
            return Reply::Bad("it is stopping already".into());
        }
        match answered.await {
            Ok(Ok(())) => Reply::good(&()),
            Ok(Err(why)) => Reply::Bad(format!(
                "{why}. End these programs, or use --force: they get errors"
            )),
            Err(_) => Reply::Bad("it is stopping already".into()),
        }
    }
}
