/** Fetches OpenAPI documents through the egress guard, parses JSON or YAML, and caches them per workspace. */

import { createRequire } from 'node:module'
import { Worker } from 'node:worker_threads'
import { LRUCache } from 'lru-cache'
import { FLOW_LIMITS } from '../../features/flows/limits.ts'
import { KeyedSemaphore } from '../../infra/keyed-semaphore.ts'
import { callFailure, type Fields, fieldsOf } from '../call-failure.ts'
import { type CallClients, sendAuthenticated } from './authentication.ts'
import { toUrl } from './http-call.ts'

export class Documents {
  readonly #cache: LRUCache<string, Fields>

  /** @param now a monotonic clock in milliseconds, which is never 0 */
  constructor(now: () => number = () => performance.now()) {
    const { cacheMs: ttl, cacheBytesMax: maxSize } = FLOW_LIMITS.openApi
    this.#cache = new LRUCache({ ttl, maxSize, perf: { now }, ttlResolution: 0 })
  }

  /**
   * Returns the document at an endpoint. One that needs authentication is not cached.
   * @param resource `{endpoint: URL, authentication?}`
   * @param workspace owner of the cached document: other workspaces may not be allowed to reach the endpoint
   * @throws ApplicationFailure (final) if there is no valid document. @throws Problem without a response
   */
  async get(
    resource: Fields,
    workspace: string,
    clients: CallClients,
  ): Promise<{ document: Fields; url: URL }> {
    const url = toUrl(resource['endpoint'])
    const { authentication } = resource
    const key = `${workspace} ${url.href}`
    const cached = authentication === undefined ? this.#cache.get(key) : undefined
    if (cached !== undefined) return { document: cached, url }
    const text = await fetchDocument(url, authentication, clients)
    const document = requireVersion(await parseDocument(text, workspace))
    if (authentication === undefined) this.#cache.set(key, document, { size: Buffer.byteLength(text) })
    return { document, url }
  }
}

async function fetchDocument(url: URL, authentication: unknown, clients: CallClients): Promise<string> {
  const headers = {
    accept: 'application/json, application/yaml;q=0.9, */*;q=0.8',
    'user-agent': 'tenon-flow/1',
  }
  const bounded = { ...clients, http: clients.http.withMaxBytes(FLOW_LIMITS.openApi.documentBytesMax) }
  const { status, body } = await sendAuthenticated(authentication, { method: 'GET', url, headers }, bounded)
  if (status === 200) return new TextDecoder().decode(body)
  const detail = `The OpenAPI document at ${url.origin}${url.pathname} cannot be read: the server responded with ${status}.`
  throw callFailure('communication', detail, { status })
}

/** Parses JSON if the text begins with a brace, else YAML. YAML may begin with a brace too, but OpenAPI documents do not. */
async function parseDocument(text: string, workspace: string): Promise<Fields> {
  if (text.trimStart().startsWith('{')) return fieldsOf(parseJson(text))
  const value = await readYaml(text, workspace)
  if (value !== undefined) return fieldsOf(value)
  const most = `${FLOW_LIMITS.openApi.yamlBytesMax} bytes and ${FLOW_LIMITS.openApi.yamlMs} ms`
  throw callFailure(
    'configuration',
    `The OpenAPI document is not valid YAML, or takes more than ${most} to read.`,
  )
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw callFailure('configuration', 'The OpenAPI document is not valid JSON.')
  }
}

function requireVersion(document: Fields): Fields {
  const { swagger, openapi } = document
  if (swagger === '2.0' || /^3\.[01]\./.test(String(openapi))) return document
  const detail = 'The document is neither OpenAPI 3.0 or 3.1 nor Swagger 2.0.'
  throw callFailure('configuration', detail)
}

const {
  yamlBytesMax,
  yamlMs,
  yamlWaitMs,
  yamlDocumentsMax: yamlAtOnce,
  documentBytesMax,
} = FLOW_LIMITS.openApi

/** The code of the worker thread. It counts each use of an alias, so that nested aliases cannot expand, and returns JSON. */
const CODE = `
const { parentPort, workerData } = require('node:worker_threads')
const { parse } = require(workerData.library)
const options = { maxAliasCount: 100, uniqueKeys: false, logLevel: 'silent', prettyErrors: false }
const json = JSON.stringify(parse(workerData.text, options)) ?? 'null'
parentPort.postMessage(json.length > workerData.most ? undefined : json)`

const library = createRequire(import.meta.url).resolve('yaml')
const SLOTS = new KeyedSemaphore(1, yamlWaitMs, yamlAtOnce)
const BUSY = 'Other OpenAPI documents are being read.'

/**
 * Parses YAML in a worker thread.
 * @param workspace each workspace parses one text at a time
 * @returns the value; undefined if the text is invalid, or takes too much time or memory
 * @throws Problem `overloaded` if no thread was free in time
 */
async function readYaml(text: string, workspace: string): Promise<unknown> {
  if (Buffer.byteLength(text) > yamlBytesMax) return undefined
  const release = await SLOTS.acquire(workspace, BUSY)
  const json = await parseInThread(text).finally(release)
  return json === undefined ? undefined : JSON.parse(json)
}

/** @returns the value as JSON; undefined if the thread fails or takes too long */
function parseInThread(text: string): Promise<string | undefined> {
  const workerData = { library, text, most: documentBytesMax }
  const resourceLimits = { maxOldGenerationSizeMb: 256, stackSizeMb: 4 }
  // The thread loads no code of the platform and sees no environment variables.
  const worker = new Worker(CODE, {
    eval: true,
    workerData,
    resourceLimits,
    execArgv: [],
    env: {},
    stderr: true,
  })
  return new Promise((done) => {
    let hasEnded = false
    const timeout = setTimeout(() => end(undefined), yamlMs)
    const end = (json: string | undefined) => {
      if (hasEnded) return
      hasEnded = true
      clearTimeout(timeout)
      // Resolves after the termination, so that the thread's memory is free before the next thread starts.
      void worker.terminate().then(() => done(json))
    }
    worker.on('message', end)
    worker.on('error', () => end(undefined))
    worker.on('exit', () => end(undefined))
  })
}
