/**
 * Patches of Temporal's SDK, each of which the worker runs without as well. All concern the threads in which the SDK runs
 * workflows, and are installed by replacing Node's `Worker` class before the SDK makes its threads (`workflow-threads.ts`).
 *
 * | patch | what it changes | what it earns |
 * |---|---|---|
 * | `activation-watch.ts` | one watchdog for an activation, instead of one for each call into the sandbox | a tenth of the latency of three calls; the CPU time that `thread-queue.ts` needs |
 * | `promise-stacks.ts` | no stack is noted for each promise | 30 % of a workflow thread's time |
 * | `thread-queue.ts` | tenants share the thread by the CPU time that they use | isolation: decision 26 |
 *
 * They fit one version of the SDK. With another one, or with `TENON_SDK_PATCHES=off`, the worker runs unpatched: slower, with
 * tenants served in the order in which they ask. `npm run test:soak` runs the whole suite that way.
 */

import sdk from '@temporalio/worker/package.json' with { type: 'json' }
import type { Config } from '../../infra/config.ts'
import type { Log } from '../../infra/log.ts'
import { prepareWorkflowThreads } from './install.ts'

/** The version whose messages between threads the patches know. */
const PATCHED_VERSION = '1.24.0'

/** To be called before the first worker is made. */
export function patchSdk({ TENON_SDK_PATCHES }: Pick<Config, 'TENON_SDK_PATCHES'>, log: Log): void {
  if (TENON_SDK_PATCHES === 'off') return
  if (sdk.version === PATCHED_VERSION) prepareWorkflowThreads()
  else log.warn({ version: sdk.version, patched: PATCHED_VERSION }, 'Temporal SDK runs without our patches')
}
