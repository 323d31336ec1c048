/** `tenon flow init`: writes an example flow with its test cases, and the line by which editors find the schema. */

import { join } from 'node:path'
import type { Command } from 'commander'
import { readSettings } from '../settings.ts'
import { addVerb, writeNewFiles } from '../verb.ts'

const FLOW = `document:
  dsl: '1.0.3'
  namespace: examples
  name: greet
  version: '1.0.0'
  title: Greet
do:
  - known:
      switch:
        - named: { when: .name != null, then: greet }
        - nameless: { then: shrug }
  - shrug:
      set: { message: 'Hello, stranger!' }
      then: end
  - greet:
      set: { message: '\${ "Hello, \\(.name)!" }' }
      then: keep
  - keep:
      call: collection.create
      with:
        name: greetings
        document: { message: '\${ .message }' }
      output: { as: '\${ { message: $input.message, id: .id } }' }
`

const CASES = `# Run them with: tenon flow test greet.yaml
- name: 'with a name: the greeting is stored'
  input: { name: Ada }
  mocks:
    keep: { output: { id: doc_1 } }
  expect:
    status: completed
    output: { message: 'Hello, Ada!', id: doc_1 }
    steps: [known, greet, keep]
    calls:
      - function: collection.create
        arguments: { name: greetings, document: { message: 'Hello, Ada!' } }
- name: 'without a name: nothing is stored'
  input: {}
  expect:
    output: { message: 'Hello, stranger!' }
    steps: [known, shrug]
`

/** Writes the files, unless they exist. @returns the exit code */
async function init(folder = '.'): Promise<number> {
  const url = (await readSettings())['TENON_URL'] ?? 'http://127.0.0.1:8787'
  const schema = `# yaml-language-server: $schema=${url}/v1/flows/schema.json\n`
  const files = [
    ['greet.yaml', `${schema}${FLOW}`],
    ['greet.cases.yaml', CASES],
  ] as const
  await writeNewFiles(folder, files)
  process.stderr.write(`Check it: tenon flow validate --offline ${join(folder, 'greet.yaml')}\n`)
  return 0
}

export function initVerb(flows: Command): void {
  addVerb(flows, 'init [folder]', 'Write an example flow and its test cases.', init)
}
