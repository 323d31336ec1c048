declare module 'tenon' {
  type Json = null | boolean | number | string | Json[] | { [name: string]: Json }
  type Document = { id: string; [field: string]: unknown }
  type Page<T = Document> = {
    data: T[]
    page: { size: number; next: string | null; has_more: boolean; total?: number; position?: string }
  }
  type Execution = { id: string; status: string; output?: unknown; [member: string]: unknown }
  type StoredObject = { bucket: string; key: string; size: number; etag: string; created: boolean }
  type ListedObject = { key: string; size: number; etag: string; last_modified: string }
  type Count = 'exact' | 'estimated'
  type Log = (...values: unknown[]) => void

  /** ETags that a document or an object must have, or must not have. */
  type Conditions = { if_match?: string; if_none_match?: string }
  type ObjectConditions = Conditions & { if_unmodified_since?: string }
  type ObjectHeaders = {
    content_type?: string
    content_encoding?: string
    content_disposition?: string
    content_language?: string
    cache_control?: string
    content_md5?: string
    content_digest?: string
    repr_digest?: string
    metadata?: { [name: string]: string }
  }
  type ReadOptions = ObjectConditions & {
    if_modified_since?: string
    range?: string
    if_range?: string
    response_cache_control?: string
    response_content_disposition?: string
    response_content_encoding?: string
    response_content_language?: string
    response_content_type?: string
    response_expires?: string
    width?: number
    height?: number
    fit?: 'cover' | 'contain' | 'fill' | 'inside' | 'outside'
    format?: 'auto' | 'jpeg' | 'png' | 'webp' | 'avif'
    accept?: string
  }
  type Content =
    | ReadableStream<Uint8Array>
    | Response
    | Blob
    | ArrayBuffer
    | ArrayBufferView
    | string
    | Json
    | object
  type VersionOrAlias = { version?: number; alias?: string }
  type PageOptions = { page_size?: number; page_after?: string }
  type ListOptions = PageOptions & {
    filters?: string[][]
    order?: string
    select?: string
    expand?: string
    count?: Count
    page_position?: boolean
  }
  type QueryOptions = {
    filter?: object
    sort?: { [field: string]: 1 | -1 } | string[]
    limit?: number
    select?: string | string[]
    expand?: string | { [name: string]: unknown }
    after?: string
    count?: Count
    position?: boolean
  }
  /** `wait`: seconds, at most 30, to wait for the end of the change. */
  type BulkOptions = { all?: boolean; max_documents?: number; dry_run?: boolean; wait?: number }
  type Operators = {
    set?: object
    unset?: string[]
    inc?: object
    push?: object
    pull?: object
    min?: object
    max?: object
    now?: string[]
  }
  type BulkChange = {
    id: string
    status: 'queued' | 'running' | 'completed' | 'failed' | 'cancelled'
    matched: number
    changed: number
    failed: number
    failures: { id: string; code: string; detail: string }[]
    [member: string]: unknown
  }
  type AggregateOptions = {
    filter?: object
    group?: string[] | { [name: string]: string | { bucket: string; by: string; tz?: string } }
    measures?: { [name: string]: { [measure: string]: string | true } }
    having?: object
    sort?: { [name: string]: 1 | -1 } | string[]
    limit?: number
    after?: string
  }
  type BatchOperation = {
    collection: string
    op: 'create' | 'update' | 'patch' | 'replace' | 'upsert' | 'increment' | 'delete'
    [member: string]: unknown
  }
  type BatchResult = {
    status: number
    ref?: string
    id?: string
    version?: number
    error?: { code: string; detail?: string; [member: string]: unknown }
  }

  /** Calls of the platform, with the rights of the caller or the scopes in the configuration. */
  export interface Tenon {
    collections: {
      create(name: string, document: object, options?: { upsert?: string }): Promise<Document>
      get(name: string, id: string, options?: { select?: string; expand?: string }): Promise<Document>
      list(name: string, options?: ListOptions): Promise<Page>
      query(name: string, options?: QueryOptions): Promise<Page>
      aggregate(
        name: string,
        options?: AggregateOptions,
      ): Promise<Page<{ [name: string]: unknown }> | { [name: string]: unknown }>
      update(
        name: string,
        id: string,
        changes: object,
        options?: Conditions & { replace?: boolean; unset?: string },
      ): Promise<Document>
      patch(
        name: string,
        id: string,
        options?: Conditions & { document?: object; operators?: { [operator: string]: unknown } },
      ): Promise<Document>
      delete(name: string, id: string, options?: Conditions): Promise<{ id: string; deleted: true }>
      updateMany(
        name: string,
        filter: object,
        options?: BulkOptions & Operators & { data?: object },
      ): Promise<BulkChange>
      deleteMany(name: string, filter: object, options?: BulkOptions): Promise<BulkChange>
    }
    batch(
      ops: BatchOperation[],
      options?: { atomic?: boolean },
    ): Promise<{ committed: boolean; results: BatchResult[] }>
    objects: {
      /** The object as a web Response: `json()`, `text()`, `bytes()`, or `body`, a stream of any size. */
      get(bucket: string, key: string, options?: ReadOptions): Promise<Response>
      /** Bytes, or a text, or any other JSON. */
      put(
        bucket: string,
        key: string,
        content: Content,
        options?: ObjectConditions & ObjectHeaders,
      ): Promise<StoredObject>
      delete(
        bucket: string,
        key: string,
        options?: { if_match?: string; if_unmodified_since?: string },
      ): Promise<{ bucket: string; key: string; deleted: true }>
      list(
        bucket: string,
        options?: PageOptions & { prefix?: string; delimiter?: string },
      ): Promise<Page<ListedObject> & { prefixes?: string[] }>
    }
    events: { publish(topic: string, data?: unknown): Promise<unknown> }
    functions: {
      invoke(
        id: string,
        input?: unknown,
        options?: VersionOrAlias & { respond_async?: boolean },
      ): Promise<unknown>
    }
    flows: {
      start(
        flow: string,
        input?: unknown,
        options?: VersionOrAlias & { correlation_key?: string; wait?: number },
      ): Promise<Execution>
      get(id: string): Promise<Execution>
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

  /** The caller that started the run. */
  export interface Caller {
    kind: 'service' | 'user' | 'anon' | 'flow' | 'function' | 'mcp' | 'schedule' | 'event'
    id: string
    user?: { id: string; email?: string; claims: { [name: string]: Json } }
    on_behalf_of?: string
  }

  /** The client of a call as a tool, and its answers to requests that the function has returned. */
  export interface Mcp {
    clientCapabilities: { [method: string]: unknown }
    inputResponses?: { [name: string]: InputResponse }
    requestState?: string
  }
  /** `content`: of a form that was accepted. */
  type InputResponse = {
    action?: 'accept' | 'decline' | 'cancel'
    content: { [field: string]: unknown }
    [member: string]: unknown
  }

  /** The second argument of a function. */
  export interface Context {
    run: { id: string; attempt: number }
    caller: Caller
    env: Record<string, string>
    secrets: Record<string, string>
    log: Log & { debug: Log; info: Log; warn: Log; error: Log }
    tenon: Tenon
    mcp?: Mcp
  }

  export const tenon: Tenon
  export const log: Context['log']
  export const env: Context['env']
  export const secrets: Context['secrets']
}
