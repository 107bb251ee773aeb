//! `tidegate chaos-instance`: one limiter of a chaos run, as a process of its own. Started by
//! `tidegate chaos`, which hands it a plan; nothing for people to type.

use super::super::compose;
use super::super::failure::{Exit, Failure};
use super::super::output::Outcome;
use tidegate::Limiter;
use tidegate::admission::LocalStage;
use tidegate::model::KeyPrefix;
use tidegate::store::cluster::{ClusterOptions, ClusterStore};
use tidegate_chaos::load::{
    InstanceError, LoadPlan, Orders, SteppingClock, policies, serve, take_orders,
};

/// Takes a plan from the standard input and carries it out.
pub(in crate::cli) fn run() -> Outcome {
    let failed = |error: InstanceError| Failure::new(error.to_string());
    let (plan, orders) = take_orders().map_err(failed)?;
    compose::large_runtime()?.block_on(carry_out(plan, orders))
}

async fn carry_out(plan: LoadPlan, orders: Orders) -> Outcome {
    let wrong = |error: &dyn std::error::Error| Failure::new(error.to_string());
    let mut options = ClusterOptions::from_url(&plan.redis).map_err(|e| wrong(&e))?;
    options.key_prefix = KeyPrefix::new(&plan.key_prefix).map_err(|e| wrong(&e))?;
    if !plan.repair {
        options.journal_len_max = 0;
    }
    let clock = SteppingClock::new(plan.clock_step);
    let mut builder = Limiter::builder()
        .policies(policies(&plan.policies).map_err(|e| wrong(&e))?)
        .store(ClusterStore::connect(options).map_err(|e| wrong(&e))?)
        .clock(clock.clone())
        .deadline(std::time::Duration::from_millis(plan.deadline_ms));
    if plan.local_stage {
        builder = builder.local_stage(LocalStage::default());
    }
    let limiter = builder.build().map_err(|e| wrong(&e))?;
    let served = serve(limiter, &clock, plan, orders, ClusterStore::restored).await;
    served.map_err(|e| wrong(&e))?;
    Ok(Exit::Done)
}
