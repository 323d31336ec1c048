/** Signals processes together with those that they have started. */

/** Ends all processes of a group that was started `detached`. */
export function killGroup(pid: number | undefined): void {
  signalGroup(pid, 'SIGKILL')
}

/** Sends a signal to all processes of a group that was started `detached`. */
export function signalGroup(pid: number | undefined, signal: 'SIGKILL' | 'SIGSTOP' | 'SIGCONT'): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, signal)
  } catch {
    // It is gone.
  }
}
