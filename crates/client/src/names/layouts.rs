//! Where bytes lie: a file's layout, and the rule for new ones.

use crate::answer;
use crate::service::Client;
use gupfs_proto::layout::LayoutRule;
use gupfs_proto::meta::{Answer, Op};
use gupfs_proto::{Caller, InodeId, Layout, ObjectId, OstId, Refusal, data};

impl Client {
    /// The rule for new files, and whether it is inherited from a directory above.
    pub async fn layout_rule(
        &self,
        caller: &Caller,
        ino: InodeId,
    ) -> Result<(LayoutRule, bool), Refusal> {
        match self.ask(caller, Op::GetLayoutRule { ino }).await? {
            Answer::LayoutRule { rule, inherited } => Ok((rule, inherited)),
            _ => answer::unexpected("get_layout_rule"),
        }
    }

    /// None: inherit again.
    pub async fn set_layout_rule(
        &self,
        caller: &Caller,
        ino: InodeId,
        rule: Option<LayoutRule>,
    ) -> Result<(), Refusal> {
        let op = Op::SetLayoutRule { ino, rule };
        answer::done("set_layout_rule", self.ask(caller, op).await?)
    }

    /// Where a regular file's bytes are, with what is known of its objects; empty while they live in the inode.
    pub async fn layout(&self, ino: InodeId) -> Result<Layout, Refusal> {
        let inode = self.table.pin(ino);
        self.load(&inode).await?;
        let layout = inode.state().layout.clone();
        Ok(layout)
    }

    /// How one object stands; None if there is none.
    pub async fn object(
        &self,
        ost: OstId,
        object: ObjectId,
    ) -> Result<Option<data::ObjectStat>, Refusal> {
        match self.ask_ost(ost, data::Op::Stat { object }).await? {
            data::Answer::Stat(stat) => Ok(stat),
            _ => answer::unexpected("stat"),
        }
    }
}
