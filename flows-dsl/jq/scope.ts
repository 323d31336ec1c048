/** Resolves the names in an expression to positions in the run-time environment. */

import type { Json } from '../json.ts'
import type { Expression } from './expression.ts'
import type { Env, EnvEntry, Filter } from './filter.ts'
import { heightOf, surroundingHeight } from './stack-depth.ts'

/** A compiled function. The cell exists before its body, so that the body can refer to it. */
export interface FunctionCell {
  body: Filter | undefined
  /** It yields exactly one value if its arguments do. */
  readonly one: boolean
  /** Levels of stack that its body holds while its outputs are consumed. */
  readonly height: number
  /** Length of the environment at the definition. */
  readonly size: number
}

type Binding =
  | { readonly kind: 'variable' | 'parameter' | 'label'; readonly name: string; readonly slot: number }
  | { readonly kind: 'function'; readonly name: string; readonly cell: FunctionCell }

type Compile = (node: Expression, scope: Scope, tail: boolean) => Filter

/** Distance of a name in the environment, from its latest entry. */
export type Distance = number

export class Scope {
  readonly size: number
  /** Levels of expressions above, within the function. */
  readonly level: number
  /** Height of the enclosing expressions' other parts on the stack. */
  readonly #surroundingHeight: number
  readonly #bindings: readonly Binding[]
  readonly #compile: Compile

  constructor(compile: Compile, bindings: readonly Binding[] = [], size = 0, level = 0, around = 0) {
    this.#compile = compile
    this.#bindings = bindings
    this.size = size
    this.level = level
    this.#surroundingHeight = around
  }

  /** @param tail whether the outputs are those of a function, so that it may end with a call */
  compile(node: Expression, tail = false): Filter {
    return this.#compile(node, this, tail)
  }

  bind(kind: 'variable' | 'parameter' | 'label', name: string): Scope {
    return this.#with({ kind, name, slot: this.size }, this.size + 1)
  }

  define(name: string, cell: FunctionCell): Scope {
    return this.#with({ kind: 'function', name, cell }, this.size)
  }

  #with(binding: Binding, size: number): Scope {
    return new Scope(this.#compile, [binding, ...this.#bindings], size, this.level, this.#surroundingHeight)
  }

  /** The scope within a part of the expression; its other parts may be below it on the stack. */
  nested(node: Expression): Scope {
    const others = Math.max(0, this.#surroundingHeight - heightOf(node))
    const level = this.level + 1 + others
    return new Scope(this.#compile, this.#bindings, this.size, level, surroundingHeight(node))
  }

  /** The same names at the beginning of a function. */
  atFunctionStart(): Scope {
    return new Scope(this.#compile, this.#bindings, this.size, 1)
  }

  /** The same compiler without any names, for functions of the prelude. */
  empty(): Scope {
    return new Scope(this.#compile)
  }

  find(kind: 'variable' | 'label', name: string): Distance | undefined {
    const found = this.#bindings.find((binding) => binding.kind === kind && binding.name === name)
    return found === undefined || found.kind === 'function' ? undefined : this.size - found.slot - 1
  }

  /** A parameter (as its distance) or a function; `name` includes the arity. */
  findCallable(name: string): Distance | FunctionCell | undefined {
    const found = this.#bindings.find(
      (binding) => (binding.kind === 'parameter' || binding.kind === 'function') && binding.name === name,
    )
    if (found === undefined) return undefined
    return found.kind === 'function' ? found.cell : this.size - found.slot - 1
  }
}

export function entryAt(env: Env, distance: Distance): EnvEntry {
  const entry = envBack(env, distance)
  if (entry === undefined) throw new Error('the environment lacks an entry that the compiler resolved')
  return entry
}

export function envBack(env: Env, distance: Distance): Env {
  let entry = env
  for (let i = 0; i < distance; i++) entry = entry?.next
  return entry
}

export function bindValue(value: Json, next: Env): EnvEntry {
  return { value, closure: undefined, label: undefined, next }
}
