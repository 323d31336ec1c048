/** What goes into the workflow bundle; built once per change of its sources and kept by content hash. */

import { fileURLToPath } from 'node:url'
import { type BundleOptions, bundleWorkflowCode, DefaultLogger } from '@temporalio/worker'

const at = (path: string) => fileURLToPath(new URL(path, import.meta.url))

const OPTIONS: BundleOptions = {
  workflowsPath: at('../workflows/index.ts'),
  workflowInterceptorModules: ['error-type', 'door', 'hops'].map((name) => at(`../workflows/${name}.ts`)),
  // Without state of its own but what it has compiled: evaluated once, and frozen, instead of for each run.
  preloadModules: [at('../../flows-dsl/run.ts')],
  payloadConverterPath: at('../workflows/payload-converter.ts'),
  failureConverterPath: at('../workflows/failure-converter.ts'),
}

/**
 * Builds the bundle's code: about three seconds.
 * @throws Error with what the bundler said, where a file cannot go into the sandbox
 */
export async function buildBundle(): Promise<string> {
  const said: string[] = []
  const logger = new DefaultLogger('ERROR', ({ message }) => said.push(message))
  try {
    const { code } = await bundleWorkflowCode({ ...OPTIONS, logger })
    return code
  } catch (cause) {
    throw new Error(`The workflow bundle cannot be built.\n${said.join('\n')}`, { cause })
  }
}
