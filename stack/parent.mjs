/** Loaded first into a process that must not outlive its parent: asks it to stop when the parent's pipe closes. */

import { Socket } from 'node:net'

const STOP_MS = 4_800

const fd = process.env['TENON_PARENT_FD']
// Its own children have no such pipe.
delete process.env['TENON_PARENT_FD']

if (fd !== undefined) {
  const pipe = new Socket({ fd: Number(fd) })
  pipe.on('error', () => {})
  pipe.once('close', () => {
    process.kill(process.pid, 'SIGTERM')
    setTimeout(() => process.exit(1), STOP_MS).unref()
  })
  pipe.resume()
  pipe.unref()
}
