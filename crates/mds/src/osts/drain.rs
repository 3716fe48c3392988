//! Targets whose objects move to others, before an administrator removes them: no new file is laid out there.

use super::Targets;
use super::call::down;
use super::lost;
use gupfs_namespace::{DrainSettings, KnownTarget};
use gupfs_proto::cluster::DrainChange;
use gupfs_proto::{FsError, OstId, Timestamp};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::AcqRel;

impl Targets {
    /// Begins, changes or ends the drain of a target; returns the record that the caller has to store, None if nothing changes.
    ///
    /// # Errors
    /// `TargetDown` for a target that was never recorded, or is lost, if no other target could take an object, or to pause what is not drained.
    pub(crate) fn drain(
        &self,
        ost: OstId,
        change: DrainChange,
        now: Timestamp,
    ) -> Result<Option<KnownTarget>, FsError> {
        let mut list = self.list.lock();
        let has_other = (list.iter()).any(|(other, entry)| *other != ost && entry.is_usable());
        let recorded = list.get_mut(&ost).and_then(|entry| entry.recorded.as_mut());
        let Some(recorded) = recorded else {
            return Err(down(ost, "no target with this number was ever added"));
        };
        if let Some(since) = recorded.lost_since {
            return Err(down(ost, lost::reason(recorded.is_removed, since)));
        }
        let before = *recorded;
        match (change, recorded.draining_since) {
            (DrainChange::Start { .. }, None) if !has_other => {
                return Err(down(ost, "no other target takes new files now"));
            }
            (DrainChange::Start { rate }, since) => {
                recorded.draining_since = since.or(Some(now));
                if let Some(rate) = rate {
                    recorded.drain.rate = Some(rate).filter(|rate| *rate > 0);
                }
            }
            (DrainChange::Pause | DrainChange::Resume, None) => {
                return Err(down(ost, "it is not being drained"));
            }
            (DrainChange::Pause, Some(_)) => recorded.drain.is_paused = true,
            (DrainChange::Resume, Some(_)) => recorded.drain.is_paused = false,
            (DrainChange::Cancel, _) => {
                (recorded.draining_since, recorded.drain) = (None, DrainSettings::default());
            }
            (DrainChange::Ask, _) => {}
        }
        Ok((*recorded != before).then_some(*recorded))
    }

    /// Removes a target that was drained: it is treated as a lost one, but no bytes are lost with it. Returns the record that the caller has to
    /// store, None if it was removed before, and since when it is removed.
    ///
    /// # Errors
    /// As `drain`; also for a target that is not being drained.
    pub(crate) fn remove(
        &self,
        ost: OstId,
        now: Timestamp,
    ) -> Result<(Option<KnownTarget>, Timestamp), FsError> {
        let mut list = self.list.lock();
        let entry = list.get_mut(&ost);
        let Some((entry, recorded)) = entry.and_then(|it| it.recorded.map(|known| (it, known)))
        else {
            return Err(down(ost, "no target with this number was ever added"));
        };
        match recorded.lost_since {
            Some(since) if recorded.is_removed => return Ok((None, since)),
            Some(since) => return Err(down(ost, lost::reason(false, since))),
            None => {}
        }
        if recorded.draining_since.is_none() {
            return Err(down(ost, "it is not being drained"));
        }
        let removed = KnownTarget {
            lost_since: Some(now),
            is_removed: true,
            drain: DrainSettings::default(),
            ..recorded
        };
        entry.recorded = Some(removed);
        (entry.condition, entry.serving) = (lost::condition(true, now), None);
        // Under the lock: the map with this epoch does not list the target.
        self.epoch.fetch_add(1, AcqRel);
        self.changed.notify_waiters();
        Ok((Some(removed), now))
    }

    /// The targets that are being drained, and since when.
    pub fn draining(&self) -> BTreeMap<OstId, Timestamp> {
        let list = self.list.lock();
        let of = |(ost, entry): (&OstId, &super::TargetEntry)| {
            let known = entry.recorded.filter(|known| known.lost_since.is_none())?;
            known.draining_since.map(|since| (*ost, since))
        };
        list.iter().filter_map(of).collect()
    }

    /// Of `draining`, those whose objects move now.
    pub fn moving(&self) -> BTreeMap<OstId, Timestamp> {
        let mut draining = self.draining();
        draining.retain(|ost, _| !self.drain_settings(*ost).is_paused);
        draining
    }

    pub fn drain_settings(&self, ost: OstId) -> DrainSettings {
        let recorded = self.recorded(ost);
        recorded.map_or(DrainSettings::default(), |known| known.drain)
    }

    /// The bytes that are used on a target's disk, and the space that others have which take new files.
    pub(crate) fn room_for_drain(&self, ost: OstId) -> (u64, u64) {
        let list = self.list.lock();
        let used = list.get(&ost).and_then(|entry| entry.space.as_ref().ok());
        let used = used.map_or(0, |space| space.total.saturating_sub(space.available));
        let others = list.iter().filter(|(other, _)| **other != ost);
        let spaces = others.filter(|(_, entry)| entry.is_usable());
        // Targets on one file system share its space.
        let volumes: BTreeMap<u64, u64> = spaces
            .filter_map(|(_, entry)| entry.space.as_ref().ok())
            .map(|space| (space.volume, space.available))
            .collect();
        (used, volumes.into_values().sum())
    }
}
