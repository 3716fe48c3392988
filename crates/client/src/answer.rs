//! Takes from an answer what the question calls for; anything else is a server that does not speak as agreed.

use gupfs_proto::meta::{Answer, Opened, Removed};
use gupfs_proto::{Attr, OstLife, Refusal, data};

pub fn unexpected<T>(question: &str) -> Result<T, Refusal> {
    Err(Refusal::Malformed(format!(
        "'{question}' was answered with something else"
    )))
}

pub fn entry(question: &str, answer: Answer) -> Result<Attr, Refusal> {
    match answer {
        Answer::Entry(attr) | Answer::Attr(attr) => Ok(attr),
        _ => unexpected(question),
    }
}

pub fn opened(question: &str, answer: Answer) -> Result<Opened, Refusal> {
    match answer {
        Answer::Opened(opened) => Ok(opened),
        _ => unexpected(question),
    }
}

pub fn removed(question: &str, answer: Answer) -> Result<Removed, Refusal> {
    match answer {
        Answer::Removed(removed) => Ok(removed),
        Answer::Done => Ok(Removed::default()),
        _ => unexpected(question),
    }
}

pub fn done(question: &str, answer: Answer) -> Result<(), Refusal> {
    changed(question, answer).map(|_| ())
}

/// The attributes after a change, if the answer tells them.
pub fn changed(question: &str, answer: Answer) -> Result<Option<Attr>, Refusal> {
    match answer {
        Answer::Done | Answer::Synced => Ok(None),
        Answer::Attr(attr) | Answer::Entry(attr) => Ok(Some(attr)),
        Answer::Opened(opened) => Ok(Some(opened.attr)),
        _ => unexpected(question),
    }
}

pub fn written(
    question: &str,
    answer: data::Answer,
) -> Result<(data::ObjectStat, OstLife), Refusal> {
    match answer {
        data::Answer::Written(stat, life) => Ok((stat, life)),
        _ => unexpected(question),
    }
}
