/** Fetches OpenAPI documents through the egress guard, parses JSON or YAML, and caches them per workspace. */

import { createRequire } from 'node:module'
import { Worker } from 'node:worker_threads'
import { LRUCache } from 'lru-cache'
import { LIMITS } from '../../core/limits.ts'
import { KeyedSemaphore } from '../../infra/keyed-semaphore.ts'
import { callFailure, type Fields, fieldsOf } from '../call-failure.ts'
import { type CallClients, sendAuthenticated } from './authentication.ts'
import { toUrl } from './http-call.ts'

export class Documents {
  readonly #kept: LRUCache<string, Fields>

  /** @param now a clock in milliseconds that never goes back, and is never 0 */
  constructor(now: () => number = () => performance.now()) {
    const { keptMs: ttl, keptBytesMax: maxSize } = LIMITS.openApi
    this.#kept = new LRUCache({ ttl, maxSize, perf: { now }, ttlResolution: 0 })
  }

  /**
   * The document at the endpoint, `{endpoint: URL, authentication?}`.
   * @param workspace whose it is; nobody else is given it, since nobody else may reach there
   * @throws ApplicationFailure (final) where there is none. @throws Problem where no answer came
   */
  async at(resource: Fields, workspace: string, way: CallClients): Promise<{ document: Fields; url: URL }> {
    const url = toUrl(resource['endpoint'])
    const { authentication } = resource
    const key = `${workspace} ${url.href}`
    const kept = authentication === undefined ? this.#kept.get(key) : undefined
    if (kept !== undefined) return { document: kept, url }
    const text = await fetched(url, authentication, way)
    const document = versioned(await read(text, workspace))
    if (authentication === undefined) this.#kept.set(key, document, { size: Buffer.byteLength(text) })
    return { document, url }
  }
}

async function fetched(url: URL, authentication: unknown, way: CallClients): Promise<string> {
  const headers = {
    accept: 'application/json, application/yaml;q=0.9, */*;q=0.8',
    'user-agent': 'tenon-flow/1',
  }
  const bounded = { ...way, http: way.http.withMaxBytes(LIMITS.openApi.documentBytesMax) }
  const { status, body } = await sendAuthenticated(authentication, { method: 'GET', url, headers }, bounded)
  if (status === 200) return new TextDecoder().decode(body)
  const detail = `The OpenAPI document at ${url.origin}${url.pathname} is not there: ${status} was answered.`
  throw callFailure('communication', detail, { status })
}

/** JSON begins with a brace; there is YAML that does too, and nobody writes a document in it. */
async function read(text: string, workspace: string): Promise<Fields> {
  if (text.trimStart().startsWith('{')) return fieldsOf(fromJson(text))
  const value = await readYaml(text, workspace)
  if (value !== undefined) return fieldsOf(value)
  const most = `${LIMITS.openApi.yamlBytesMax} bytes and ${LIMITS.openApi.yamlMs} ms`
  throw callFailure(
    'configuration',
    `The OpenAPI document is not valid YAML, or takes more than ${most} to read.`,
  )
}

function fromJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw callFailure('configuration', 'The OpenAPI document is not valid JSON.')
  }
}

function versioned(document: Fields): Fields {
  const { swagger, openapi } = document
  if (swagger === '2.0' || /^3\.[01]\./.test(String(openapi))) return document
  const detail = 'The document is not of OpenAPI 3.0 or 3.1, nor of Swagger 2.0.'
  throw callFailure('configuration', detail)
}

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
async function readYaml(text: string, holder: string): Promise<unknown> {
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
