/** An output that is JSON text already, made on another thread: the main one passes it on without reading it. */

export class Serialized {
  /** Valid JSON, which fits the output schema of its operation. */
  readonly json: string

  constructor(json: string) {
    this.json = json
  }

  /** The output as a value, for callers that need one: costs time in proportion to its size. */
  parsed(): unknown {
    return JSON.parse(this.json)
  }
}
