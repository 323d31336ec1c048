/** Builds the workflow bundle and its list of interceptors; cached by the content of its sources. */

import { fileURLToPath } from 'node:url'
import { type BundleOptions, bundleWorkflowCode, DefaultLogger } from '@temporalio/worker'

const at = (path: string) => fileURLToPath(new URL(path, import.meta.url))

const WORKFLOWS = at('../workflows/index.ts')
const INTERCEPTORS = ['error-type', 'tenant', 'ordered-results', 'chain-depth'].map((name) =>
  at(`../workflows/${name}-interceptor.ts`),
)

/**
 * Compiles for a current Node: by default the SDK compiles for ES2017, and rewrites private members, spreads and `??`. The source
 * map has no copy of the sources, which each worker would read, write and pass to its threads for 0.2 s when it starts.
 */
const currentNode: NonNullable<BundleOptions['webpackConfigHook']> = (config) => {
  for (const rule of config.module?.rules ?? []) {
    const use = typeof rule === 'object' && rule !== null ? rule.use : undefined
    if (typeof use === 'object' && use !== null && 'options' in use && typeof use.options === 'object')
      Object.assign(use.options, { jsc: { ...use.options['jsc'], target: 'es2022' } })
  }
  return { ...config, devtool: 'inline-nosources-source-map' }
}

const OPTIONS: BundleOptions = {
  workflowsPath: WORKFLOWS,
  workflowInterceptorModules: INTERCEPTORS,
  // These modules hold no state of an execution, so they are evaluated and frozen once instead of for each workflow.
  preloadModules: [...INTERCEPTORS, WORKFLOWS],
  payloadConverterPath: at('../workflows/payload-converter.ts'),
  failureConverterPath: at('../workflows/failure-converter.ts'),
  webpackConfigHook: currentNode,
}

/**
 * Builds the code of the bundle, which takes about 3 s.
 * @throws Error with the messages of the bundler, if a file cannot be loaded in the sandbox
 */
export async function buildBundle(): Promise<string> {
  const messages: string[] = []
  const logger = new DefaultLogger('ERROR', ({ message }) => messages.push(message))
  try {
    const { code } = await bundleWorkflowCode({ ...OPTIONS, logger })
    return code
  } catch (cause) {
    throw new Error(`The workflow bundle cannot be built.\n${messages.join('\n')}`, { cause })
  }
}
