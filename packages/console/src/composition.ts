// What a model's metadata says about the models that it asks: the stages of a pipeline, or the arms of an
// experiment.

/** A pipeline or an experiment. */
export type Composition =
  | {
      readonly kind: "pipeline";
      readonly stages: readonly { readonly stage: string; readonly does: string }[];
    }
  | {
      readonly kind: "experiment";
      readonly arms: readonly {
        readonly name: string;
        /** The arm's fraction of the keys, 0…1. */
        readonly fraction: number;
        readonly asks: string;
      }[];
    };

interface ToldArm {
  readonly name?: string;
  readonly model?: string;
  readonly version?: number;
  readonly label?: string;
  readonly weight?: number;
}

/** `undefined` for a model that asks no other, and for metadata that cannot be read. */
export function compositionOf(metadata: unknown): Composition | undefined {
  const told = (metadata as { metadata?: Record<string, unknown> } | null)?.metadata ?? {};
  const stages = (told["pipeline"] as { stages?: unknown } | undefined)?.stages;
  if (Array.isArray(stages)) {
    return {
      kind: "pipeline",
      stages: (stages as readonly { stage?: unknown; does?: unknown }[]).map((each) => ({
        stage: String(each.stage),
        does: String(each.does),
      })),
    };
  }
  const arms = (told["experiment"] as { arms?: unknown } | undefined)?.arms;
  if (!Array.isArray(arms)) return undefined;
  const all = arms as readonly ToldArm[];
  const sum = all.reduce((total, { weight }) => total + (weight ?? 0), 0);
  return {
    kind: "experiment",
    arms: all.map((arm) => ({
      name: arm.name ?? "",
      fraction: sum > 0 ? (arm.weight ?? 0) / sum : 0,
      asks: targetText(arm),
    })),
  };
}

function targetText({ model = "", version, label }: ToldArm): string {
  const chosen = version ?? label;
  return chosen === undefined ? model : `${model}/${chosen}`;
}
