/** Fetches OpenAPI documents through the egress guard, reads JSON or YAML, and caches them per workspace. */

import { LRUCache } from 'lru-cache'
import { FLOW_LIMITS } from '../../features/flows/limits.ts'
import type { Tasks } from '../../features/threads/run-in-thread.ts'
import {
  ALL_VERSIONS,
  type Fields,
  InvalidDocument,
  isJsonText,
  parseJsonText,
  requireVersion,
  type YamlText,
} from '../../infra/openapi/document.ts'
import type { Ran } from '../../infra/thread-pool.ts'
import { callFailure } from '../call-failure.ts'
import { type CallClients, sendAuthenticated } from './authentication.ts'
import { toUrl } from './http-call.ts'

/** The workspace of a call, and how it reads YAML. */
export interface DocumentReader {
  /** The owner of cached documents: other workspaces may not be allowed to reach the endpoint. */
  readonly workspace: string
  /** Runs the task `yamlToJson` in the share of the tenant of the worker threads. @throws Problem `overloaded` */
  readonly yamlInThread: (yaml: YamlText, cpuMs: number) => Promise<Ran<ReturnType<Tasks['yamlToJson']>>>
}

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
   * @throws ApplicationFailure (final) if there is no valid document. @throws Problem without a response
   */
  async get(
    resource: Fields,
    reader: DocumentReader,
    clients: CallClients,
  ): Promise<{ document: Fields; url: URL }> {
    const url = toUrl(resource['endpoint'])
    const { authentication } = resource
    const key = `${reader.workspace} ${url.href}`
    const cached = authentication === undefined ? this.#cache.get(key) : undefined
    if (cached !== undefined) return { document: cached, url }
    const text = await fetchDocument(url, authentication, clients)
    const document = await readDocument(text, reader)
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

async function readDocument(text: string, reader: DocumentReader): Promise<Fields> {
  try {
    const value = isJsonText(text) ? parseJsonText(text) : await readYaml(text, reader)
    return requireVersion(value, ALL_VERSIONS)
  } catch (error) {
    throw error instanceof InvalidDocument ? callFailure('configuration', error.message) : error
  }
}

async function readYaml(text: string, { yamlInThread }: DocumentReader): Promise<unknown> {
  const { yamlBytesMax, yamlCpuMs, documentBytesMax } = FLOW_LIMITS.openApi
  if (Buffer.byteLength(text) > yamlBytesMax)
    throw new InvalidDocument(`The document has more than ${yamlBytesMax} bytes of YAML; JSON may have more.`)
  const ran = await yamlInThread({ text, charsMax: documentBytesMax }, yamlCpuMs)
  if (!('value' in ran))
    throw new InvalidDocument(
      `The document takes more than ${yamlCpuMs / 1_000} s or too much memory to read. JSON is faster than YAML.`,
    )
  if ('invalid' in ran.value) throw new InvalidDocument(ran.value.invalid)
  return JSON.parse(ran.value.json)
}
