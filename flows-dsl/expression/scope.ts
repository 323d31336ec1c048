/** Knows which names a part of an expression can see, and how far back each one is when it runs. */

import type { Expression } from './expression.ts'
import type { Env, Filter, Held } from './filter.ts'
import { heightAround, heightOf } from './height.ts'

/** A function and what its body became; a function that calls itself is there before its body is. */
export interface FunctionCell {
  body: Filter | undefined
  /** Whether it yields one value where its arguments do. */
  readonly one: boolean
  /** What its body holds of the stack while its outputs are used. */
  readonly height: number
  /** How many names are held where it is defined. */
  readonly size: number
}

type Binding =
  | { readonly kind: 'variable' | 'parameter' | 'label'; readonly name: string; readonly slot: number }
  | { readonly kind: 'function'; readonly name: string; readonly cell: FunctionCell }

export type Compile = (node: Expression, scope: Scope, tail?: boolean) => Filter

/** How a name is reached: by going back so many steps. */
export type Hops = number

export class Scope {
  readonly size: number
  /** How many levels of expressions are above, within the function. */
  readonly level: number
  /** How high the parts of the expression around stand upon each other. */
  readonly #around: number
  readonly #bindings: readonly Binding[]

  constructor(bindings: readonly Binding[] = [], size = 0, level = 0, around = 0) {
    this.#bindings = bindings
    this.size = size
    this.level = level
    this.#around = around
  }

  hold(kind: 'variable' | 'parameter' | 'label', name: string): Scope {
    return new Scope(
      [{ kind, name, slot: this.size }, ...this.#bindings],
      this.size + 1,
      this.level,
      this.#around,
    )
  }

  define(name: string, cell: FunctionCell): Scope {
    return new Scope(
      [{ kind: 'function', name, cell }, ...this.#bindings],
      this.size,
      this.level,
      this.#around,
    )
  }

  /** Within a part of the expression; the other parts may be below it on the stack. */
  inside(node: Expression): Scope {
    const others = Math.max(0, this.#around - heightOf(node))
    return new Scope(this.#bindings, this.size, this.level + 1 + others, heightAround(node))
  }

  /** The same names at the beginning of a function. */
  fresh(): Scope {
    return new Scope(this.#bindings, this.size, 1)
  }

  find(kind: 'variable' | 'label', name: string): Hops | undefined {
    const found = this.#bindings.find((binding) => binding.kind === kind && binding.name === name)
    return found === undefined || found.kind === 'function' ? undefined : this.size - found.slot - 1
  }

  /** For functions that are defined here: parameters around them may be anything. */
  yieldsOne(name: string): boolean | undefined {
    const found = this.called(name)
    return found === undefined ? undefined : typeof found !== 'number' && found.one
  }

  /** A parameter, by its hops, or a function; `name` is written with its arity. */
  called(name: string): Hops | FunctionCell | undefined {
    const found = this.#bindings.find(
      (binding) => (binding.kind === 'parameter' || binding.kind === 'function') && binding.name === name,
    )
    if (found === undefined) return undefined
    return found.kind === 'function' ? found.cell : this.size - found.slot - 1
  }
}

/** What is held so many steps back. */
export function heldAt(env: Env, hops: Hops): Held {
  let held = env
  for (let i = 0; i < hops; i++) held = held?.next
  if (held === undefined) throw new Error('a name is held where it was found')
  return held
}

/** The environment so many steps back. */
export function envBack(env: Env, hops: Hops): Env {
  let held = env
  for (let i = 0; i < hops; i++) held = held?.next
  return held
}

export function holdValue(value: Held['value'], next: Env): Held {
  return { value, closure: undefined, label: undefined, next }
}
