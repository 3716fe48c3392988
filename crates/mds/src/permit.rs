//! What a session is given to show to OSTs: with the answer that tells where a file's bytes are, and anew when it asks.

use crate::core::Core;
use crate::records::damaged;
use gupfs_names::{Inode, Key, Record};
use gupfs_proto::capability::Rights;
use gupfs_proto::meta::{Answer, Op, Request};
use gupfs_proto::{InodeId, Refusal, SessionId};

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
                // Who holds a file alone may write it. All others are told where it is so that they may read it.
                let rights = match request.op {
                    Op::BeginWrite { .. } => Rights::all(),
                    _ => Rights::READ,
                };
                let (session, ino) = (request.session, opened.attr.ino);
                opened.capability = permits.capability(session, ino, &opened.layout, rights);
                Answer::Opened(opened)
            }
            other => other,
        })
    }

    /// The right to a file, anew. That a program opened it is the client's word, as with every call by an open file; that the
    /// session holds it is ours.
    pub async fn permit(
        &self,
        session: SessionId,
        ino: InodeId,
        rights: Rights,
    ) -> Result<Answer, Refusal> {
        let pass = self.renew(session)?;
        let Some(permits) = self.targets.permits() else {
            return Ok(Answer::Permitted {
                pass,
                capability: None,
            });
        };
        let key = Key::inode(ino);
        let value = self.get_now(&key).await?.ok_or(Refusal::Stale)?;
        let inode = Inode::decode(&value).map_err(|error| damaged(&key, error))?;
        let holds = self.get_now(&Key::writer(ino, session)).await?.is_some();
        if rights.contains(Rights::WRITE) && !holds {
            return Err(Refusal::Denied);
        }
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
