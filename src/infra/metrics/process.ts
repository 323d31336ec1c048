/** The metrics of this process: processor time, memory, file descriptors, and how late its event loop runs. */

import { readdir, readFile } from 'node:fs/promises'
import { monitorEventLoopDelay, performance } from 'node:perf_hooks'
import type { Metrics, SetValue } from './metrics.ts'

/** A timer of this period measures the delay. */
const RESOLUTION_MS = 20
const QUANTILES = [0.5, 0.99, 1] as const

/** @returns stops the timer */
export function observeProcess(metrics: Metrics, version: string): () => void {
  const delays = monitorEventLoopDelay({ resolution: RESOLUTION_MS })
  delays.enable()
  metrics.observe('process', async (set) => {
    set('tenon_build_info', 1, { version })
    setEventLoop(set, delays)
    const { user, system } = process.cpuUsage()
    set('process_cpu_seconds_total', (user + system) / 1e6, {})
    const { rss, heapUsed } = process.memoryUsage()
    set('process_resident_memory_bytes', rss, {})
    set('process_heap_bytes', heapUsed, {})
    set('process_start_time_seconds', performance.timeOrigin / 1_000, {})
    await setFileDescriptors(set)
  })
  return () => delays.disable()
}

function setEventLoop(set: SetValue, delays: ReturnType<typeof monitorEventLoopDelay>): void {
  for (const quantile of QUANTILES) {
    const ms = quantile === 1 ? delays.max / 1e6 : delays.percentile(quantile * 100) / 1e6
    // Without a measurement, the maximum is 0.
    set('tenon_event_loop_delay_seconds', Math.max(0, ms - RESOLUTION_MS) / 1_000, {
      quantile: String(quantile),
    })
  }
  delays.reset()
  set('tenon_event_loop_active_seconds_total', performance.eventLoopUtilization().active / 1_000, {})
}

/** Linux alone has them as files. */
async function setFileDescriptors(set: SetValue): Promise<void> {
  if (process.platform !== 'linux') return
  const [open, limits] = await Promise.all([readdir('/proc/self/fd'), readFile('/proc/self/limits', 'utf8')])
  set('process_open_fds', open.length, {})
  const max = /^Max open files +([0-9]+)/m.exec(limits)?.[1]
  if (max !== undefined) set('process_max_fds', Number(max), {})
}
