/** Builds the workflow bundle and its list of interceptors; cached by the content of its sources. */

import { fileURLToPath } from 'node:url'
import { type BundleOptions, bundleWorkflowCode, DefaultLogger } from '@temporalio/worker'

const at = (path: string) => fileURLToPath(new URL(path, import.meta.url))

const WORKFLOWS = at('../workflows/index.ts')
const INTERCEPTORS = ['error-type', 'tenant', 'ordered-results', 'chain-depth'].map((name) =>
  at(`../workflows/${name}-interceptor.ts`),
)

/** For the Node that runs it: left alone, the SDK rewrites private members, spreads and `??` for one of 2017. */
const asWritten: NonNullable<BundleOptions['webpackConfigHook']> = (config) => {
  for (const rule of config.module?.rules ?? []) {
    const use = typeof rule === 'object' && rule !== null ? rule.use : undefined
    if (typeof use === 'object' && use !== null && 'options' in use && typeof use.options === 'object')
      Object.assign(use.options, { jsc: { ...use.options['jsc'], target: 'es2022' } })
  }
  return config
}

const OPTIONS: BundleOptions = {
  workflowsPath: WORKFLOWS,
  workflowInterceptorModules: INTERCEPTORS,
  // Without state of their own but what was compiled: evaluated once, and frozen, instead of for each run.
  preloadModules: [...INTERCEPTORS, WORKFLOWS],
  payloadConverterPath: at('../workflows/payload-converter.ts'),
  failureConverterPath: at('../workflows/failure-converter.ts'),
  webpackConfigHook: asWritten,
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
