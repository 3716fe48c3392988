//! Control requests and replies.

use gupfs_proto::InodeId;
use gupfs_proto::jobs::JobKey;
use gupfs_proto::layout::{DefaultLayout, LayoutChange};
use serde::{Deserialize, Serialize};

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
pub enum ControlRequest {
    /// The reply is a `StatusReply`.
    Status,
    /// The reply is a list of `OstSpace`.
    Df,
    /// The reply is a `JobUse`, of the rows behind this one.
    JobUse { after: Option<JobKey> },
    /// The reply is a `Synced`, sent when all changes acknowledged before the request are durable.
    Sync,
    /// The reply is a `LayoutView`: of a file, or the default layout of a directory.
    LayoutGet { ino: InodeId },
    /// Sets the default layout of a directory. None: the directory inherits that of its parent.
    LayoutSet {
        ino: InodeId,
        rule: Option<DefaultLayout>,
    },
    /// Changes the layout of a file. The reply, after a second or two, is a `ConversionView`; the request is sent again until it says that the
    /// conversion has ended.
    LayoutConvert { ino: InodeId, change: LayoutChange },
    /// Unmounts and ends the process. The reply comes after the unmount; a mount in use is refused, unless forced.
    Stop { force: bool },
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlReply {
    Good(serde_json::Value),
    /// An error message for users.
    Bad(String),
}

impl ControlReply {
    /// # Panics
    /// If `value` cannot be written as JSON; all reply types can.
    pub fn good<T: Serialize>(value: &T) -> ControlReply {
        ControlReply::Good(serde_json::to_value(value).expect("replies are plain data"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_one_line_that_an_administrator_can_type() {
        let request: ControlRequest =
            serde_json::from_str(r#"{"ask":"stop","force":false}"#).unwrap();
        assert_eq!(request, ControlRequest::Stop { force: false });
        assert_eq!(
            serde_json::to_string(&ControlRequest::LayoutGet { ino: InodeId(7) }).unwrap(),
            r#"{"ask":"layout_get","ino":7}"#
        );
        assert!(serde_json::from_str::<ControlRequest>(r#"{"ask":"statsu"}"#).is_err());
    }
}
