/** What goes into the workflow bundle; built once per change of its sources and kept by content hash. */

import { fileURLToPath } from 'node:url'
import { type BundleOptions, bundleWorkflowCode } from '@temporalio/worker'

const at = (path: string) => fileURLToPath(new URL(path, import.meta.url))

const OPTIONS: BundleOptions = {
  workflowsPath: at('../workflows/index.ts'),
  workflowInterceptorModules: [at('../workflows/door.ts')],
}

/** Builds the bundle's code: about three seconds. */
export async function buildBundle(): Promise<string> {
  const { code } = await bundleWorkflowCode({ ...OPTIONS, logger: { trace() {}, debug() {}, info() {}, warn() {}, error() {}, log() {} } })
  return code
}
