//! `__tell`: tells the program of `onChange` which addresses are leased, as a process of its own.
//! Passes start it after they have changed addresses; nobody types it.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::causes::Chain;
use crate::drivers::on_change::run_on_change;
use crate::drivers::programs::find_driver_program;
use crate::edits;
use crate::model::documents::{Settings, SettingsSpec};
use crate::model::driver::PROGRAM_PREFIX;
use crate::model::event_reason::EventReason;
use crate::model::ip_pool::IpPool;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::state::Scope;
use crate::reconcile::{Door, TELL_COMMAND};
use crate::store::Store;

use crate::commands::ip::export::list_leases;
use crate::commands::{Context, RunCommand, count_of};

/// How often one process looks for a further change after the program has ended. What comes later
/// is told by the process that the next pass starts.
const MAX_ROUNDS: usize = 10;

/// Arguments of `__tell`: a file. poolctl starts it itself.
#[derive(Args)]
pub struct Tell {
    /// State file
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl RunCommand for Tell {
    const NAME: &'static str = TELL_COMMAND;
    const ABOUT: &'static str = "Tell the program of onChange which addresses are leased";
    const EXAMPLE: &'static str = "poolctl __tell FILE";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = Store::open(&self.file)?;
        store.set_time(context.world.now());
        // Another process that has the lock looks for changes until there are none.
        let Some(_lock) = store.try_lock_to_tell()? else { return Ok(()) };
        for _ in 0..MAX_ROUNDS {
            let kept_settings = store.find::<Settings>(&Key::new("", "default"))?;
            let settings = kept_settings.map(|settings| settings.spec).unwrap_or_default();
            let Some(program) = settings.on_change.clone() else { return Ok(()) };
            let news = store.read_address_news()?;
            let now = context.world.now();
            if !news.is_due(now) {
                return Ok(());
            }
            // What changes from here on is told in the next round.
            match tell(&store, &settings, &program) {
                Ok(()) if news.failures == 0 => store.record_told(news.changes)?,
                Ok(()) => {
                    store.record_told(news.changes)?;
                    record(context, &store, EventReason::AddressesTold, &format!("{program} ran"))?;
                }
                Err(problem) => {
                    store.record_not_told(news, now)?;
                    return Ok(record(context, &store, EventReason::AddressesNotTold, &problem)?);
                }
            }
        }
        Ok(())
    }
}

/// That the program has failed since addresses have changed, so that the network does not know them.
pub fn find_untold_addresses(store: &Store) -> Result<Option<Chain>, Refusal> {
    let settings = store.find::<Settings>(&Key::new("", "default"))?;
    let Some(program) = settings.and_then(|settings| settings.spec.on_change) else {
        return Ok(None);
    };
    let failures = store.read_address_news()?.failures;
    if failures == 0 {
        return Ok(None);
    }
    let attempts = count_of(usize::try_from(failures).unwrap_or(usize::MAX), "attempt");
    let cause = format!("the network is not told of addresses: {program} failed, {attempts}");
    Ok(Some(Chain::new(cause, "poolctl events settings/default")))
}

/// Runs the program with all leased addresses, as `ip export -o json` has them. The error is for
/// people.
fn tell(store: &Store, settings: &SettingsSpec, program: &str) -> Result<(), String> {
    let name = program.strip_prefix(PROGRAM_PREFIX).unwrap_or(program);
    let path = find_driver_program(settings, name)?;
    let document = list_addresses(store).map_err(|refusal| refusal.to_string())?;
    run_on_change(&path, document.as_bytes())
}

/// All leased addresses in one document.
fn list_addresses(store: &Store) -> Result<String, Refusal> {
    store.read_snapshot(|| {
        let mut leases = Vec::new();
        for pool in store.list_all::<IpPool>()? {
            leases.extend(store.list_leases_of_pool(&pool)?);
        }
        let addresses = list_leases(store, &leases)?;
        let revision = store.read_revision()?;
        let document = json!({"apiVersion": "v1", "kind": "List", "revision": revision,
            "items": addresses});
        Ok(document.to_string())
    })
}

/// Records how the program has ended: a warning if it has failed.
fn record(
    context: &Context,
    store: &Store,
    reason: EventReason,
    message: &str,
) -> Result<(), Refusal> {
    let door = Door { plans_changes: false, ..context.door(store) };
    let settings = Key::new("", "default");
    door.change(&Scope::Pools(Vec::new()), &[], |state, tick| {
        if reason == EventReason::AddressesNotTold {
            edits::record_warning(state, tick, Kind::Settings, settings, reason, message);
        } else {
            edits::record_event(state, tick, Kind::Settings, settings, reason, message);
        }
        Ok(())
    })?;
    Ok(())
}
