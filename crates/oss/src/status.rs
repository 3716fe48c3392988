//! The status of an object server for `gupfs status`.

use crate::AuthorizerStatus;
use gupfs_store::object::OstStatus;
use serde::Serialize;

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct OssStatus {
    pub targets: Vec<OstStatus>,
    #[serde(rename = "gate")]
    pub authorizer: AuthorizerStatus,
}
