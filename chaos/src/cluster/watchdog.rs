//! Ends what a cluster under test started when its owner ends: a shell that reads a pipe.
//!
//! The pipe closes however the owner ends (also by `kill -9`), and the shell then cleans up. It
//! sits in a process group of its own, so that a Ctrl-C doesn't end it first. Never trusts a
//! destructor: statics have none, and a killed process runs none.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::ClusterError;

/// How long [`Drop`] waits for the clean-up; it goes on by itself if that wasn't enough.
const CLEAN_UP_MAX: Duration = Duration::from_secs(30);

/// `pid N` and `gone N` keep the list of processes, `undo CMD` adds a command to be run at the
/// end, `dismiss` drops those. A killed process is only waited for so long: as an orphan it may stay a zombie.
const SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM
pids= undo=
while read -r word rest; do
  case $word in
    pid) pids="$pids $rest" ;;
    gone) kept=; for p in $pids; do [ "$p" = "$rest" ] || kept="$kept $p"; done; pids=$kept ;;
    undo) undo="$undo
$rest" ;;
    dismiss) undo= ;;
  esac
done
if [ -n "$pids" ]; then
  kill -9 $pids
  for _ in 1 2 3 4 5 6 7 8 9 10; do kill -0 $pids || break; sleep 0.05; done
fi
eval "$undo"
[ -z "$1" ] || rm -rf "$1"
"#;

/// The one that cleans up; [`Drop`] has it do so, and waits.
#[derive(Debug)]
pub(crate) struct Watchdog {
    shell: Mutex<Child>,
}

impl Watchdog {
    /// Starts one that will remove `dir` in the end.
    pub(crate) fn start(dir: Option<&Path>) -> Result<Self, ClusterError> {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "tidegate-watchdog"]);
        command.arg(dir.unwrap_or(Path::new("")));
        command.stdin(Stdio::piped()).current_dir("/");
        command.stdout(Stdio::null()).stderr(Stdio::null());
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let shell = command.spawn().map_err(|source| ClusterError::Program {
            program: "sh".into(),
            cure: "A POSIX shell must be on the path".into(),
            source,
        })?;
        Ok(Self {
            shell: Mutex::new(shell),
        })
    }

    /// Its own process number.
    pub(crate) fn pid(&self) -> u32 {
        self.shell
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .id()
    }

    /// Has the process killed in the end.
    pub(crate) fn watch(&self, pid: u32) -> Result<(), ClusterError> {
        self.send(&format!("pid {pid}"))
    }

    /// The process has ended and was waited for: its number may become someone else's.
    pub(crate) fn forget(&self, pid: u32) -> Result<(), ClusterError> {
        self.send(&format!("gone {pid}"))
    }

    /// Has a shell command run in the end, in one line; what it says and how it ends is ignored.
    pub(crate) fn undo(&self, command: &str) -> Result<(), ClusterError> {
        self.send(&format!("undo {command}"))
    }

    /// What [`Watchdog::undo`] was asked for is undone already.
    pub(crate) fn dismiss(&self) -> Result<(), ClusterError> {
        self.send("dismiss")
    }

    fn send(&self, line: &str) -> Result<(), ClusterError> {
        let mut shell = self.shell.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(stdin) = shell.stdin.as_mut() else {
            return Ok(());
        };
        stdin
            .write_all(format!("{line}\n").as_bytes())
            .map_err(ClusterError::io("telling the watchdog what to clean up"))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        let shell = self.shell.get_mut().unwrap_or_else(PoisonError::into_inner);
        drop(shell.stdin.take());
        let begun = Instant::now();
        while begun.elapsed() < CLEAN_UP_MAX {
            match shell.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(5)),
                Ok(Some(_)) | Err(_) => return,
            }
        }
    }
}
