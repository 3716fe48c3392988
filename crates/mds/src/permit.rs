//! What a session is given to show to OSTs: with the answer that tells where a file's bytes are, and anew when it asks.

use crate::core::Core;
use crate::records::damaged;
use gupfs_namespace::rights::Opens;
use gupfs_namespace::{Inode, Key, Record};
use gupfs_proto::capability::Rights;
use gupfs_proto::meta::{Answer, Op, Request};
use gupfs_proto::{InodeId, Refusal};

impl Core {
    /// Completes an answer: a new session's with its first pass, one that says where bytes are with the right to them.
    pub fn permitted(&self, request: &Request, answer: Answer) -> Result<Answer, Refusal> {
        let Some(permits) = self.targets.permits() else {
            return Ok(answer);
        };
        Ok(match answer {
            Answer::Session { session, life, .. } => Answer::Session {
                session,
                life,
                pass: self.renew(session)?,
            },
            Answer::Opened(mut opened) => {
                let (session, ino) = (request.session, opened.attr.ino);
                let layout = &opened.layout;
                opened.capability = match &request.op {
                    // Who holds a file alone may write it. All others are told where it is so that they may read it.
                    Op::BeginWrite { .. } => {
                        permits.capability(session, ino, layout, Rights::all())
                    }
                    Op::Create { open, .. } | Op::Open { open, .. } => {
                        let rights = Rights::of_open(open.access);
                        permits.of_open(session, ino, layout, rights)
                    }
                    Op::OpenTmpFile { access, .. } => {
                        permits.of_open(session, ino, layout, Rights::of_open(*access))
                    }
                    _ => permits.capability(session, ino, layout, Rights::READ),
                };
                Answer::Opened(opened)
            }
            other => other,
        })
    }

    /// The right to a file, anew, for a session that holds it, or has it open.
    pub async fn permit(
        &self,
        request: &Request,
        opens: &Opens,
        ino: InodeId,
    ) -> Result<Answer, Refusal> {
        let session = request.session;
        let pass = self.renew(session)?;
        let Some(permits) = self.targets.permits() else {
            return Ok(Answer::Permitted {
                pass,
                capability: None,
            });
        };
        let holds = self.holds(session, ino).await?;
        if !holds {
            self.must_have_right(session, &request.caller, opens, &request.op)
                .await?;
        }
        let key = Key::inode(ino);
        let value = self.get_now(&key).await?.ok_or(Refusal::Stale)?;
        let inode = Inode::decode(&value).map_err(|error| damaged(&key, error))?;
        let given = match holds {
            true => Rights::all(),
            false => Rights::READ,
        };
        let layout = &inode.file()?.layout;
        Ok(Answer::Permitted {
            pass,
            capability: permits.capability(session, ino, layout, given),
        })
    }
}
