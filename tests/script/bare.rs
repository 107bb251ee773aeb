//! The scripts as a store: one connection to one server, no routing, no second try.

use fred::types::Value;
use tidegate::model::{KeyPrefix, Target};
use tidegate::store::cluster::script::{ChargeScript, RefundScript, Script, Scripts, reset_keys};
use tidegate::store::{
    ChargeCall, ChargeReply, Readiness, RefundCall, Refunded, ResetCall, ShardId, Store,
    StoreError, StoreErrorKind,
};

use super::server::Server;

pub struct Bare {
    server: Server,
    scripts: Scripts,
    prefix: KeyPrefix,
}

impl Bare {
    pub fn on(server: Server) -> Self {
        Bare {
            server,
            scripts: Scripts::default(),
            prefix: KeyPrefix::default(),
        }
    }

    async fn run(&self, script: &Script, args: Vec<Value>) -> Result<Value, StoreError> {
        let error = |why: String| StoreError::unknown("run", StoreErrorKind::Refused, why);
        let reply = self.server.send("EVALSHA", args.clone()).await;
        if !reply.as_ref().is_err_and(|why| why.starts_with("NOSCRIPT")) {
            return reply.map_err(error);
        }
        let load = vec!["LOAD".into(), script.text()];
        self.server.send("SCRIPT", load).await.map_err(error)?;
        self.server.send("EVALSHA", args).await.map_err(error)
    }
}

impl Store for Bare {
    async fn charge(&self, call: ChargeCall) -> Result<ChargeReply, StoreError> {
        let script = ChargeScript::new(&self.scripts, &self.prefix, call)?;
        script.decode(self.run(script.script(), script.args(false)).await?)
    }

    async fn refund(&self, call: RefundCall) -> Result<Refunded, StoreError> {
        let script = RefundScript::new(&self.scripts, &self.prefix, call);
        script.decode(self.run(script.script(), script.args()).await?)
    }

    async fn reset(&self, call: ResetCall) -> Result<(), StoreError> {
        let keys = reset_keys(&self.prefix, &call.target);
        let keys = keys.into_iter().map(Value::from).collect();
        self.server.send("UNLINK", keys).await.unwrap();
        Ok(())
    }

    fn readiness(&self) -> Readiness {
        Readiness::Ready
    }

    fn calls_sent(&self) -> u64 {
        0
    }

    fn shard_of(&self, _: &Target) -> ShardId {
        ShardId::WHOLE
    }
}
