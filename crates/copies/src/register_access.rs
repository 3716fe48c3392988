//! Reads and changes of the register.

use crate::error::CopiesError;
use crate::limits::{FAILURES_LOGGED, RETRY_PAUSE};
use crate::register::Register;
use gupfs_platform::arbiter::{Arbiter, ArbiterError, ArbiterLease, ChangeResult, RegisterState};
use gupfs_platform::{BootTime, Clock};
use parking_lot::Mutex;
use std::sync::Arc;

/// The register as it was found last.
#[derive(Clone)]
pub struct KnownRegister {
    pub state: RegisterState,
    /// None: nothing was written yet.
    pub register: Option<Register>,
}

pub struct RegisterAccess {
    pub arbiter: Arbiter,
    clock: Clock,
    known: Mutex<Option<Arc<KnownRegister>>>,
    failure: Mutex<Option<ArbiterFailure>>,
}

/// Calls of the arbiter that failed since one succeeded.
struct ArbiterFailure {
    last: ArbiterError,
    calls: u32,
    is_logged: bool,
    logged_refusal: Option<ArbiterError>,
}

/// What a change makes of the register.
pub enum Edit {
    Write(Register),
    /// It is as wanted already.
    Keep,
    /// The change does not apply any more, for this reason.
    Refuse(String),
}

impl RegisterAccess {
    pub fn new(arbiter: Arbiter, clock: Clock) -> RegisterAccess {
        RegisterAccess {
            arbiter,
            clock,
            known: Mutex::new(None),
            failure: Mutex::new(None),
        }
    }

    /// Why the arbiter cannot be used now, as far as this process knows.
    pub fn error(&self) -> Option<ArbiterError> {
        let failure = self.failure.lock();
        failure.as_ref().map(|failure| failure.last.clone())
    }

    /// The register as this process has read or written it last.
    pub fn known(&self) -> Option<Arc<KnownRegister>> {
        self.known.lock().clone()
    }

    fn note(&self, state: RegisterState) -> Result<Arc<KnownRegister>, CopiesError> {
        let register = match &state.value {
            Some(value) => Some(Register::decode(value)?),
            None => None,
        };
        let known = Arc::new(KnownRegister { state, register });
        *self.known.lock() = Some(known.clone());
        let failure = self.failure.lock().take();
        if failure.is_some_and(|failure| failure.is_logged) {
            tracing::info!("the arbiter answers again");
        }
        Ok(known)
    }

    /// Reads the register; waits while the arbiter is away.
    ///
    /// # Errors
    /// `Register` if its value cannot be used.
    pub async fn read(&self) -> Result<Arc<KnownRegister>, CopiesError> {
        loop {
            match self.arbiter.read().await {
                Ok(state) => return self.note(state),
                Err(error) => self.pause(&error).await,
            }
        }
    }

    /// Changes the register, whatever others change meanwhile; `edit` may be called several times. Waits while the arbiter is away, or refuses.
    ///
    /// # Errors
    /// `Deposed` with the reason of `Edit::Refuse`; `Register`.
    pub async fn change(
        &self,
        edit: impl Fn(Option<&Register>) -> Edit,
    ) -> Result<Arc<KnownRegister>, CopiesError> {
        let mut known = match self.known() {
            Some(known) => known,
            None => self.read().await?,
        };
        let mut is_fresh = false;
        loop {
            let wanted = match edit(known.register.as_ref()) {
                Edit::Write(wanted) => wanted,
                // What this process knew may have changed since.
                Edit::Keep | Edit::Refuse(_) if !is_fresh => {
                    known = self.read().await?;
                    is_fresh = true;
                    continue;
                }
                Edit::Keep => return Ok(known),
                Edit::Refuse(why) => return Err(CopiesError::Deposed(why)),
            };
            let value = wanted.encode();
            match (self.arbiter.change(known.state.revision, value)).await {
                // The new state is read: the caller may wait for a change after it.
                Ok(ChangeResult::Done(_)) => return self.read().await,
                Ok(ChangeResult::Conflict(state)) => known = self.note(state)?,
                // It may have been done, or may be until another change is seen: the same change is made again.
                Err(error) => {
                    self.pause(&error).await;
                    known = self.read().await?;
                }
            }
            is_fresh = true;
        }
    }

    /// Takes the register with this value if it was not changed since it was read, and no other lease holds it.
    ///
    /// # Errors
    /// `Register` if its value cannot be used.
    pub async fn take(
        &self,
        known: &KnownRegister,
        wanted: &Register,
        lease: &ArbiterLease,
    ) -> Result<bool, CopiesError> {
        let value = wanted.encode();
        match (self.arbiter.take(known.state.revision, value, lease)).await {
            Ok(ChangeResult::Done(_)) => {
                self.read().await?;
                Ok(true)
            }
            Ok(ChangeResult::Conflict(state)) => {
                self.note(state)?;
                Ok(false)
            }
            Err(error) => {
                self.pause(&error).await;
                let found = self.read().await?;
                // It was done if the register says so. If it is done later, the register is held by this lease, which ends.
                Ok(found.register.as_ref() == Some(wanted) && found.state.is_held)
            }
        }
    }

    /// Returns when the register may differ from what is known, or after this time.
    pub async fn wait_changed(&self, known: &KnownRegister, until: BootTime) {
        tokio::select! {
            biased;
            changed = self.arbiter.changed(&known.state) => {
                if let Err(error) = changed {
                    self.pause(&error).await;
                }
            }
            () = self.clock.sleep_until(until) => {}
        }
    }

    async fn pause(&self, error: &ArbiterError) {
        self.note_failure(error);
        self.clock.sleep(RETRY_PAUSE).await;
    }

    /// Logs a failure once: it may last for days.
    fn note_failure(&self, error: &ArbiterError) {
        let mut noted = self.failure.lock();
        let failure = noted.get_or_insert_with(|| ArbiterFailure {
            last: error.clone(),
            calls: 0,
            is_logged: false,
            logged_refusal: None,
        });
        failure.last = error.clone();
        failure.calls += 1;
        match error {
            // Its disk is full, or certificates do not fit: an administrator must do something.
            ArbiterError::Refused(_) if failure.logged_refusal.as_ref() != Some(error) => {
                tracing::warn!(%error, "cannot use the register; asking until the arbiter accepts it");
                failure.logged_refusal = Some(error.clone());
                failure.is_logged = true;
            }
            // One call fails when a member dies.
            _ if failure.calls >= FAILURES_LOGGED && !failure.is_logged => {
                tracing::warn!(%error, "cannot use the register; asking again");
                failure.is_logged = true;
            }
            _ => tracing::debug!(%error, "cannot use the register; asking again"),
        }
    }
}
