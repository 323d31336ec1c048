declare module 'tenon' {
  type Json = null | boolean | number | string | Json[] | { [name: string]: Json }
  type Document = { id: string; [field: string]: unknown }
  type Page = { data: Document[]; page: { size: number; next: string | null; has_more: boolean } }
  type Log = (...values: unknown[]) => void

  /** Calls of the platform, with the rights of the caller or the scopes in the configuration. */
  export interface Tenon {
    collections: {
      create(name: string, document: object): Promise<Document>
      get(name: string, id: string): Promise<Document>
      list(name: string, query?: object): Promise<Page>
      query(name: string, query?: object): Promise<Page>
      update(name: string, id: string, changes: object): Promise<Document>
      delete(name: string, id: string): Promise<unknown>
    }
    objects: {
      get(bucket: string, key: string): Promise<unknown>
      put(bucket: string, key: string, value: unknown, options?: object): Promise<unknown>
      delete(bucket: string, key: string): Promise<unknown>
      list(bucket: string, query?: object): Promise<unknown>
    }
    events: { publish(topic: string, data?: unknown): Promise<unknown> }
    functions: { invoke(name: string, input?: unknown): Promise<unknown> }
    flows: {
      start(flow: string, input?: unknown): Promise<{ id: string }>
      get(execution: string): Promise<unknown>
    }
  }

  /** The input of a run that an event started (CloudEvents 1.0). */
  export interface Event<T = { id: string; version: number; document?: Document }> {
    id: string
    source: string
    type: string
    time: string
    data: T
  }

  /** Whoever has started the run. */
  export interface Caller {
    kind: 'service' | 'user' | 'anon' | 'flow' | 'function' | 'mcp' | 'schedule' | 'event'
    id: string
    user?: { id: string; email?: string; claims: { [name: string]: Json } }
    on_behalf_of?: string
  }

  /** The second argument of a function. */
  export interface Context {
    run: { id: string; attempt: number }
    caller: Caller
    env: Record<string, string>
    secrets: Record<string, string>
    log: Log & { debug: Log; info: Log; warn: Log; error: Log }
    tenon: Tenon
  }

  export const tenon: Tenon
  export const log: Context['log']
  export const env: Context['env']
  export const secrets: Context['secrets']
}
