//! Finds processes that wait to be brought up to date.

use super::OwnerShared;
use crate::limits::WATCH_TIMEOUT;
use crate::register::{Member, Standing};
use crate::register_access::KnownRegister;
use std::sync::Arc;

impl OwnerShared {
    /// Runs until this host is deposed.
    pub(super) async fn watch_joining(self: Arc<Self>) {
        while !self.is_deposed() {
            let known = match self.register.read().await {
                Ok(known) => known,
                Err(error) => return self.depose(error.to_string()),
            };
            self.look_at(&known);
            let until = self.platform.clock.boot() + WATCH_TIMEOUT;
            self.register.wait_changed(&known, until).await;
        }
    }

    fn look_at(self: &Arc<Self>, known: &KnownRegister) {
        let Some(register) = &known.register else {
            return self.depose("the register is empty".into());
        };
        if register.epoch != self.epoch {
            let (epoch, own) = (register.epoch, self.epoch);
            return self.depose(format!("owner {epoch} follows owner {own}"));
        }
        self.peers.retain(&register.addresses());
        for member in &register.members {
            if member.standing == Standing::Joining {
                self.begin_join(member);
            }
        }
    }

    fn begin_join(self: &Arc<Self>, member: &Member) {
        if !self.joining.lock().insert((member.id, member.run)) {
            return;
        }
        let (owner, member) = (self.clone(), member.clone());
        let joining = async move {
            owner.clone().bring_up_to_date(&member).await;
            owner.joining.lock().remove(&(member.id, member.run));
        };
        // The task ends with the process's tasks, or when the copy counts or is asked for no more.
        drop(self.platform.tasks.spawn("joining copy", joining));
    }
}
