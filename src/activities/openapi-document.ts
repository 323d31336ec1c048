/** Knows OpenAPI documents: fetched through the guard, read as JSON or YAML, and kept for a while for one workspace. */

import { LIMITS } from '../core/limits.ts'
import { callFailure } from './call-failure.ts'
import { sendAs, type Way } from './http-auth.ts'
import { type Fields, fieldsOf } from './http-auth-fields.ts'
import { toUrl } from './http-call.ts'
import { readYaml } from './openapi-yaml.ts'

interface Kept {
  readonly document: Fields
  readonly bytes: number
  readonly untilMs: number
}

export class Documents {
  readonly #kept = new Map<string, Kept>()
  readonly #now: () => number
  #bytes = 0

  /** @param now milliseconds that never go back */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now
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
    const kept = authentication === undefined ? this.#found(key) : undefined
    if (kept !== undefined) return { document: kept, url }
    const text = await fetched(url, authentication, way)
    const document = versioned(await read(text, workspace))
    if (authentication === undefined) this.#keep(key, document, Buffer.byteLength(text))
    return { document, url }
  }

  #found(key: string): Fields | undefined {
    const kept = this.#kept.get(key)
    if (kept === undefined || kept.untilMs > this.#now()) return kept?.document
    this.#drop(key)
    return undefined
  }

  /** The oldest go until there is room. */
  #keep(key: string, document: Fields, bytes: number): void {
    this.#drop(key)
    for (const oldest of this.#kept.keys()) {
      if (this.#bytes + bytes <= LIMITS.openApi.keptBytesMax) break
      this.#drop(oldest)
    }
    this.#bytes += bytes
    this.#kept.set(key, { document, bytes, untilMs: this.#now() + LIMITS.openApi.keptMs })
  }

  #drop(key: string): void {
    this.#bytes -= this.#kept.get(key)?.bytes ?? 0
    this.#kept.delete(key)
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
