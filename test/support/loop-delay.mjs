/** Measures how long the event loop of the process that loads it was blocked; each message asks, and begins anew. */

import { monitorEventLoopDelay } from 'node:perf_hooks'

const RESOLUTION_MS = 5
const histogram = monitorEventLoopDelay({ resolution: RESOLUTION_MS })
histogram.enable()

process.on('message', () => {
  process.send?.(histogram.max / 1_000_000 - RESOLUTION_MS)
  histogram.reset()
})
