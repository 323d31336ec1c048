/** Knows OpenAPI documents: fetched through the guard, read as JSON or YAML, and kept for a while for one workspace. */

import { LRUCache } from 'lru-cache'
import { LIMITS } from '../../core/limits.ts'
import { callFailure } from '../call-failure.ts'
import { sendAs, type Way } from './authentication.ts'
import { type Fields, fieldsOf } from './fields.ts'
import { toUrl } from './http-call.ts'
import { readYaml } from './openapi-yaml.ts'

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
  async at(resource: Fields, workspace: string, way: Way): Promise<{ document: Fields; url: URL }> {
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

async function fetched(url: URL, authentication: unknown, way: Way): Promise<string> {
  const headers = {
    accept: 'application/json, application/yaml;q=0.9, */*;q=0.8',
    'user-agent': 'tenon-flow/1',
  }
  const bounded = { ...way, line: way.line.upTo(LIMITS.openApi.documentBytesMax) }
  const { status, body } = await sendAs(authentication, { method: 'GET', url, headers }, bounded)
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
