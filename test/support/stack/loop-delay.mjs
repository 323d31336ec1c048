/**
 * Measures how long the event loop of the process that loads it was blocked. Each message requests and resets
 * the figures; the answer has `delayMs`, the longest delay of the loop, and `busyMs`, the most CPU time that
 * its thread used without returning to the loop: on a busy machine only the first grows with the load of
 * others.
 */

import { readFileSync } from 'node:fs'
import { monitorEventLoopDelay } from 'node:perf_hooks'

const RESOLUTION_MS = 5
const histogram = monitorEventLoopDelay({ resolution: RESOLUTION_MS })
histogram.enable()

const cpuMs = () => Number(readFileSync('/proc/thread-self/schedstat', 'latin1').split(' ')[0]) / 1_000_000
let last = cpuMs()
let busyMs = 0
setInterval(() => {
  const now = cpuMs()
  busyMs = Math.max(busyMs, now - last)
  last = now
}, RESOLUTION_MS).unref()

process.on('message', () => {
  process.send?.({ delayMs: histogram.max / 1_000_000 - RESOLUTION_MS, busyMs })
  histogram.reset()
  busyMs = 0
})
