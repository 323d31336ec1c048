/** Makes the images, starts the containers for all files, and removes them in every case. */

import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { withLock } from '../../../stack/lock.mjs'
import { say, step } from '../../../stack/project.mjs'
import { HOME, prepareEngine, removeAll } from './engine.ts'
import { prepareImages } from './images.ts'
import { createInstallation } from './installation.ts'

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const release = await acquire()
  await prepareEngine()
  // Those of a run that was killed.
  removeAll()
  process.once('exit', removeAll)
  await prepareImages()
  const installation = await createInstallation()
  await step('starting the containers', () => installation.start())
  project.provide('tenon', await installation.running())
  project.provide('containers', { folder: installation.folder, secrets: installation.secrets })
  return async () => {
    removeAll()
    process.off('exit', removeAll)
    await installation.close()
    release()
  }
}

/** Waits until no other run has containers. @returns ends the turn */
async function acquire(): Promise<() => void> {
  const [begun, ended] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const turn = withLock(
    join(HOME, 'lock'),
    () => {
      begun.resolve()
      return ended.promise
    },
    ({ pid }) => say(`tenon: waiting for the containers of the process ${pid} …`),
  )
  await Promise.race([begun.promise, turn])
  return ended.resolve
}

declare module 'vitest' {
  interface ProvidedContext {
    containers: { readonly folder: string; readonly secrets: Readonly<Record<string, string>> }
  }
}
