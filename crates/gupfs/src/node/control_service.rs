//! Executes the control requests of commands.

use super::layout::{ComponentView, LayoutView, ObjectView, StoredObject};
use super::status::show_domains;
use super::{Parts, StopRequest, status};
use crate::control::{ControlHandler, ControlReply, ControlRequest, OstSpace, Synced};
use gupfs_client::{Client, TargetSpace};
use gupfs_oss::Oss;
use gupfs_proto::cluster::{ClusterReplyBody, ClusterRequest};
use gupfs_proto::jobs::JobKey;
use gupfs_proto::layout::{ConversionState, DefaultLayout, LayoutChange};
use gupfs_proto::{Caller, FileKind, FsError, InodeId, Layout, ObjectId, OstId, Presence};
use gupfs_rpc::Service;
use gupfs_store::object::OstState;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// Executes control requests with the roles of this process.
pub struct ControlService {
    pub parts: Arc<Parts>,
    pub stop: mpsc::Sender<StopRequest>,
}

impl ControlHandler for ControlService {
    async fn handle(&self, request: ControlRequest) -> ControlReply {
        match request {
            ControlRequest::Status => {
                ControlReply::good(&status::of(&self.parts, status::Audience::Admin).await)
            }
            ControlRequest::Df => self.df().await,
            ControlRequest::JobUse { after } => self.job_use(after).await,
            ControlRequest::Sync => self.sync().await,
            ControlRequest::LayoutGet { ino } => layout_reply(self.layout(ino).await),
            ControlRequest::LayoutSet { ino, rule } => {
                let copies = rule.as_ref().map_or(1, copies_of);
                match self.set_layout(ino, rule).await {
                    Err(FsError::Invalid) if copies > 1 => self.too_few_domains(copies).await,
                    outcome => layout_reply(outcome),
                }
            }
            ControlRequest::LayoutConvert { ino, change } => {
                match self.convert_layout(ino, change).await {
                    Ok(state) => ControlReply::good(&state),
                    Err(refusal) => ControlReply::Bad(format!("refused: {refusal}")),
                }
            }
            ControlRequest::Stop { force } => self.stop(force).await,
        }
    }
}

/// How often each byte of a new file is stored.
fn copies_of(rule: &DefaultLayout) -> usize {
    let copies = rule.components.iter().map(|it| it.redundancy.copies());
    copies.max().unwrap_or(1)
}

fn layout_reply(outcome: Result<LayoutView, FsError>) -> ControlReply {
    match outcome {
        Ok(view) => ControlReply::good(&view),
        Err(refusal) => ControlReply::Bad(format!("refused: {refusal}")),
    }
}

impl ControlService {
    async fn df(&self) -> ControlReply {
        match (&self.parts.oss, &self.parts.client) {
            // With the targets in the same process, the reply has the reason why a target is down.
            (Some(oss), _) if self.parts.oss_connections.is_empty() => {
                ControlReply::good(&self.local_spaces(oss).await)
            }
            (_, Some(client)) => match client.target_spaces().await {
                Ok(spaces) => {
                    ControlReply::good(&spaces.into_iter().map(remote_space).collect::<Vec<_>>())
                }
                Err(refusal) => {
                    ControlReply::Bad(format!("cannot get the list of targets: {refusal}"))
                }
            },
            (Some(oss), None) => ControlReply::good(&self.local_spaces(oss).await),
            (None, None) => ControlReply::Bad("this process knows no targets".into()),
        }
    }

    async fn local_spaces(&self, oss: &Oss) -> Vec<OstSpace> {
        let device = |ost: OstId| {
            let dir = self
                .parts
                .store_dir
                .as_ref()
                .map(|store_dir| store_dir.ost(ost));
            let metadata = dir.and_then(|dir| std::fs::metadata(dir).ok());
            metadata.map_or(0, |metadata| metadata.dev())
        };
        let status = oss.status().await;
        status
            .targets
            .into_iter()
            .map(|target| OstSpace {
                ost: target.ost.0,
                down: match target.state {
                    OstState::Serving => None,
                    OstState::Down(why) => Some(why),
                },
                total: target.total,
                free: target.free,
                available: target.available,
                objects: target.objects,
                device: device(target.ost).to_string(),
            })
            .collect()
    }

    /// As the metadata server knows it.
    async fn job_use(&self, after: Option<JobKey>) -> ControlReply {
        let request = ClusterRequest::JobUse { after };
        let reply = match (self.parts.mds.get(), &self.parts.mds_connection) {
            (Some(mds), _) => mds.clone().handle(request).await,
            (None, Some(mds)) => mds.peer().call(request).await,
            (None, None) => Err(FsError::NotSupported),
        };
        match reply {
            Ok(ClusterReplyBody::JobUse(job_use)) => ControlReply::good(&job_use),
            Ok(_) => ControlReply::Bad("the metadata server sent an unexpected reply".into()),
            Err(FsError::NotSupported) => ControlReply::Bad(
                "this process is not the owner of the metadata, or the metadata server is of a version that counts nothing for jobs; ask a mount, or `gupfs top HOST:PORT` of the owner".into(),
            ),
            Err(refusal) => ControlReply::Bad(format!("the metadata server does not answer: {refusal}")),
        }
    }

    fn client(&self) -> Result<&Arc<Client>, FsError> {
        self.parts.client.as_ref().ok_or(FsError::NotSupported)
    }

    async fn sync(&self) -> ControlReply {
        let Ok(client) = self.client() else {
            return ControlReply::Bad(
                "this process mounts no file system: send the request to a process that does"
                    .into(),
            );
        };
        match client.sync_all().await {
            Ok(()) => ControlReply::good(&Synced {
                change: client.status().durable,
            }),
            Err(refusal) => ControlReply::Bad(format!("the sync failed: {refusal}")),
        }
    }

    async fn layout(&self, ino: InodeId) -> Result<LayoutView, FsError> {
        let root = Caller::root();
        let client = self.client()?;
        let attr = client.getattr(&root, ino).await?;
        match attr.kind {
            FileKind::Directory => {
                let (rule, inherited) = client.default_layout(&root, ino).await?;
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
        rule: Option<DefaultLayout>,
    ) -> Result<LayoutView, FsError> {
        let root = Caller::root();
        self.client()?.set_default_layout(&root, ino, rule).await?;
        self.layout(ino).await
    }

    async fn convert_layout(
        &self,
        ino: InodeId,
        change: LayoutChange,
    ) -> Result<ConversionState, FsError> {
        let root = Caller::root();
        self.client()?.convert_layout(&root, ino, change).await
    }

    /// Why the metadata server refused a default layout with so many copies.
    async fn too_few_domains(&self, copies: usize) -> ControlReply {
        let reply = match (self.parts.mds.get(), &self.parts.mds_connection) {
            (Some(mds), _) => mds.clone().handle(ClusterRequest::Domains).await,
            (None, Some(mds)) => mds.peer().call(ClusterRequest::Domains).await,
            (None, None) => Err(FsError::NotSupported),
        };
        match reply {
            Ok(ClusterReplyBody::Domains(domains)) if domains.len() < copies => {
                ControlReply::Bad(format!(
                    "refused: mirror:{copies} needs OSTs in {copies} failure domains, and there are {}: {}",
                    domains.len(),
                    show_domains(&domains)
                ))
            }
            _ => layout_reply(Err(FsError::Invalid)),
        }
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

    async fn object(&self, ost: OstId, object: ObjectId, presence: Presence) -> StoredObject {
        if presence == Presence::Stale {
            return StoredObject::Stale;
        }
        let stat = match self.client() {
            Ok(client) => client.object(ost, object).await,
            Err(refusal) => Err(refusal),
        };
        match (stat, presence) {
            (Ok(Some(stat)), _) => StoredObject::There(stat),
            (Ok(None), Presence::Present) => StoredObject::Missing,
            (Ok(None), _) => StoredObject::Hole,
            (Err(refusal), _) => StoredObject::Unknown(refusal.to_string()),
        }
    }

    async fn stop(&self, force: bool) -> ControlReply {
        let (reply, outcome) = oneshot::channel();
        if self.stop.send(StopRequest { force, reply }).await.is_err() {
            return ControlReply::Bad("the process is stopping already".into());
        }
        match outcome.await {
            Ok(Ok(())) => ControlReply::good(&()),
            Ok(Err(why)) => ControlReply::Bad(format!(
                "{why}. End these programs, or use --force: then their calls fail"
            )),
            Err(_) => ControlReply::Bad("the process is stopping already".into()),
        }
    }
}

fn remote_space(target: TargetSpace) -> OstSpace {
    let space = target.space.as_ref().copied().unwrap_or_default();
    OstSpace {
        ost: target.ost.0,
        down: target.space.err().map(|refusal| refusal.to_string()),
        total: space.total,
        free: space.free,
        available: space.available,
        objects: space.objects,
        device: space.volume.to_string(),
    }
}
