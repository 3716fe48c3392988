//! Questions and answers.

use gupfs_proto::InodeId;
use gupfs_proto::layout::DefaultLayout;
use serde::{Deserialize, Serialize};

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
pub enum ControlRequest {
    /// Answered with a `Status`.
    Status,
    /// Answered with a list of `OstStatus`.
    Df,
    /// Answered with a `Synced` when everything that was answered before survives a power cut.
    Sync,
    /// Where the bytes of a file lie, or how new files of a directory will.
    LayoutGet { ino: InodeId },
    /// None: what the directory above says.
    LayoutSet {
        ino: InodeId,
        rule: Option<DefaultLayout>,
    },
    /// Unmount and end. Answered when it is unmounted; refused if the mount is in use, unless forced.
    Stop { force: bool },
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlReply {
    Good(serde_json::Value),
    /// What happened, for people.
    Bad(String),
}

impl ControlReply {
    /// # Panics
    /// When `value` cannot be said in JSON, which of our types holds for none.
    pub fn good<T: Serialize>(value: &T) -> ControlReply {
        ControlReply::Good(serde_json::to_value(value).expect("answers are plain data"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_one_line_that_a_person_can_type() {
        let ask: ControlRequest = serde_json::from_str(r#"{"ask":"stop","force":false}"#).unwrap();
        assert_eq!(ask, ControlRequest::Stop { force: false });
        assert_eq!(
            serde_json::to_string(&ControlRequest::LayoutGet { ino: InodeId(7) }).unwrap(),
            r#"{"ask":"layout_get","ino":7}"#
        );
        assert!(serde_json::from_str::<ControlRequest>(r#"{"ask":"statsu"}"#).is_err());
    }
}
