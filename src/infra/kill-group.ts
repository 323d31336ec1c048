/** Ends processes together with those that they have started. */

/** Ends all processes of a group that was started `detached`. */
export function killGroup(pid: number | undefined): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // It is gone.
  }
}
