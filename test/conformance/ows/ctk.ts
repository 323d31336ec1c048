/**
 * Executes the conformance features of the Open Workflow Specification: `npm run test:ctk -- <folder of it>`.
 * The product's interpreter runs them and its HTTP client sends their requests; only the hosts that the
 * features name are local servers.
 */

import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { parse } from 'yaml'
import { compile } from '../../../flows-dsl/compile/compile.ts'
import type { FlowIR, Json } from '../../../flows-dsl/ir.ts'
import { type FlowResult, runFlow } from '../../../flows-dsl/machine/driver.ts'
import { CATALOGUE } from '../../../src/features/data-operations.ts'
import { FakeServers } from '../../support/servers/fake-servers.ts'
import { type Hosts, World } from './ctk-world.ts'
import { readFeature, type Scenario, type Step } from './gherkin.ts'

/** State of a scenario. */
interface Outcome {
  readonly result: FlowResult
  /** Names of tasks in the order in which they started. */
  readonly began: readonly string[]
}

/** Each returns the problem that it found, or undefined. */
type Check = (outcome: Outcome, found: readonly string[], block: string | undefined) => string | undefined

const NAMES = /'([^']+)'/g

const CHECKS: readonly (readonly [RegExp, Check])[] = [
  [/^the workflow should complete$/, ({ result }) => completed(result)],
  [
    /^the workflow should complete with output:$/,
    ({ result }, _, block) => completed(result) ?? same(outputOf(result), parse(block ?? ''), 'output'),
  ],
  [
    /^the workflow should fault$/,
    ({ result }) => (result.status === 'faulted' ? undefined : `it ended ${result.status}`),
  ],
  [
    /^the workflow should fault with error:$/,
    ({ result }, _, block) => faultedWith(result, parse(block ?? '')),
  ],
  [
    /^the workflow output should have properties (.+)$/,
    ({ result }, [list = '']) => {
      const names = [...list.matchAll(NAMES)].map(([, name = '']) => name)
      const missing = names.filter((name) => at(outputOf(result), name) === undefined)
      return missing.length === 0 ? undefined : `the output has no ${missing.join(', ')}`
    },
  ],
  [
    /^the workflow output should have a '([^']+)' property with value:$/,
    ({ result }, [path = ''], block) => same(at(outputOf(result), path), parse(block ?? ''), path),
  ],
  [
    /^the workflow output should have a '([^']+)' property containing (\d+) items$/,
    ({ result }, [path = '', count]) => {
      const value = at(outputOf(result), path)
      return Array.isArray(value) && value.length === Number(count)
        ? undefined
        : `${path} is ${excerpt(value)}`
    },
  ],
  [
    /^(\S+) should run (first|last)$/,
    ({ began }, [name, place]) => ran(began, name, place === 'first' ? 0 : -1),
  ],
  [
    /^(\S+) should run after (\S+)$/,
    ({ began }, [later = '', earlier = '']) => {
      const index = began.indexOf(earlier)
      return index >= 0 && began.lastIndexOf(later) > index ? undefined : `the order was ${began.join(', ')}`
    },
  ],
]

await main(resolve(process.env['TENON_CALLER_CWD'] ?? '.', process.argv[2] ?? ''))

async function main(folder: string): Promise<void> {
  const path = join(folder, 'ctk/features')
  const files = readdirSync(path).filter((name) => name.endsWith('.feature'))
  const pets = await FakeServers.open()
  const hosts = { 'petstore.swagger.io': pets.host, 'httpbin.org': pets.host }
  let passed = 0
  let count = 0
  for (const file of files.sort()) {
    for (const scenario of readFeature(readFileSync(join(path, file), 'utf8'))) {
      const diagnostics = await faultsOf(scenario, hosts).catch((error: unknown) => [String(error)])
      print(`${diagnostics.length === 0 ? 'pass' : 'FAIL'}  ${file}: ${scenario.name}`)
      for (const fault of diagnostics) print(`      ${fault}`)
      count += 1
      if (diagnostics.length === 0) passed += 1
    }
  }
  await pets.close()
  print(`conformance features: ${passed} of ${count} scenarios pass`)
  process.exitCode = passed === count && count > 0 ? 0 : 1
}

/** Runs a scenario. @returns the problems found */
async function faultsOf({ steps }: Scenario, hosts: Hosts): Promise<readonly string[]> {
  let ir: FlowIR | undefined
  let input: Json = {}
  let outcome: Outcome | undefined
  const diagnostics: string[] = []
  for (const step of steps) {
    if (step.text === 'a workflow with definition:') ir = compiled(step.block ?? '')
    else if (step.text === 'given the workflow input is:') input = parse(step.block ?? '') as Json
    else if (step.text === 'the workflow is executed') outcome = ir && (await executed(ir, input, hosts))
    else {
      const fault = outcome === undefined ? 'nothing was executed' : checked(outcome, step)
      if (fault !== undefined) diagnostics.push(`${step.text} ${fault}`)
    }
  }
  return outcome === undefined ? ['nothing was executed'] : diagnostics
}

function compiled(source: string): FlowIR {
  const { ir, diagnostics } = compile(source, { catalogue: CATALOGUE })
  if (ir === undefined)
    throw new Error(diagnostics.map(({ code, message }) => `${code} ${message}`).join('; '))
  return ir
}

async function executed(ir: FlowIR, input: Json, hosts: Hosts): Promise<Outcome> {
  const world = new World(hosts)
  const result = await runFlow(ir, input, world, { id: 'run-1', started_at: new Date().toISOString() })
  return { result, began: world.began }
}

/** An unknown step is a problem. */
function checked(outcome: Outcome, { text, block }: Step): string | undefined {
  for (const [pattern, check] of CHECKS) {
    const found = pattern.exec(text)
    if (found !== null) return check(outcome, found.slice(1), block)
  }
  return 'is not known here'
}

function completed(result: FlowResult): string | undefined {
  if (result.status === 'completed') return undefined
  return `it ended ${result.status}: ${excerpt('error' in result ? result.error : null)}`
}

function outputOf(result: FlowResult): unknown {
  return result.status === 'completed' ? result.output : undefined
}

/** The error must have the stated fields; it may have more. */
function faultedWith(result: FlowResult, wanted: Record<string, unknown>): string | undefined {
  if (result.status !== 'faulted') return `it ended ${result.status}`
  const error = result.error as unknown as Record<string, unknown>
  return Object.keys(wanted)
    .map((key) => same(error[key], wanted[key], key))
    .find((fault) => fault !== undefined)
}

/** A value by a path with dots. */
function at(value: unknown, path: string): unknown {
  return path
    .split('.')
    .reduce((found: unknown, key) => (found as Record<string, unknown> | null)?.[key], value)
}

function same(value: unknown, wanted: unknown, what: string): string | undefined {
  return isDeepStrictEqual(value, wanted) ? undefined : `${what} is ${excerpt(value)}, not ${excerpt(wanted)}`
}

function ran(began: readonly string[], name: string | undefined, index: number): string | undefined {
  return began.at(index) === name ? undefined : `the order was ${began.join(', ')}`
}

function excerpt(value: unknown): string {
  return JSON.stringify(value) ?? 'nothing'
}

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}
