/** Knows how to read YAML of strangers: in a thread of its own, since there are texts that take minutes. */

import { createRequire } from 'node:module'
import { Worker } from 'node:worker_threads'
import { LIMITS } from '../../core/limits.ts'
import { KeyedSemaphore } from '../../infra/keyed-semaphore.ts'

const { yamlBytesMax, yamlMs, yamlWaitMs, yamlAtOnce, documentBytesMax } = LIMITS.openApi

/** Aliases are counted as often as they are followed. What comes back is JSON, in which none are left. */
const CODE = `
const { parentPort, workerData } = require('node:worker_threads')
const { parse } = require(workerData.library)
const options = { maxAliasCount: 100, uniqueKeys: false, logLevel: 'silent', prettyErrors: false }
const json = JSON.stringify(parse(workerData.text, options)) ?? 'null'
parentPort.postMessage(json.length > workerData.most ? undefined : json)`

const library = createRequire(import.meta.url).resolve('yaml')
const OWN = new KeyedSemaphore(1, yamlWaitMs)
const ALL = new KeyedSemaphore(yamlAtOnce, yamlWaitMs)
const BUSY = 'Other OpenAPI documents are being read.'

/**
 * @param holder whose text it is: each has one turn at a time
 * @returns its value; undefined where it is not valid, or takes too much time or memory
 * @throws Problem `overloaded` where it had no turn in time
 */
export async function readYaml(text: string, holder: string): Promise<unknown> {
  if (Buffer.byteLength(text) > yamlBytesMax) return undefined
  const leaveOwn = await OWN.acquire(holder, BUSY)
  try {
    const leaveAll = await ALL.acquire('all', BUSY)
    const json = await parsed(text).finally(leaveAll)
    return json === undefined ? undefined : JSON.parse(json)
  } finally {
    leaveOwn()
  }
}

function parsed(text: string): Promise<string | undefined> {
  const workerData = { library, text, most: documentBytesMax }
  const resourceLimits = { maxOldGenerationSizeMb: 256, stackSizeMb: 4 }
  // Nothing of ours is loaded in it, nor seen by it.
  const worker = new Worker(CODE, {
    eval: true,
    workerData,
    resourceLimits,
    execArgv: [],
    env: {},
    stderr: true,
  })
  return new Promise((done) => {
    let isOver = false
    const late = setTimeout(() => end(undefined), yamlMs)
    const end = (json: string | undefined) => {
      if (isOver) return
      isOver = true
      clearTimeout(late)
      // Its memory and its place are free before the next begins.
      void worker.terminate().then(() => done(json))
    }
    worker.on('message', end)
    worker.on('error', () => end(undefined))
    worker.on('exit', () => end(undefined))
  })
}
