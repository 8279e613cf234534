// The trajectory player, as anywidget wants it.
//
// `pure` computes, and knows neither page nor kernel. `model` is the state of one widget model, and
// what goes between it and the kernel. `view` is the DOM of one display of it: the state belongs to
// the model, so two displays show one film. The parts are joined to one module when Python loads
// them (script.py has their order): no two of them may have a name in common at their top.

import { Player } from "./model/player.js";
import { Display } from "./view/display.js";

/** Called once a model; the state lives as long as the model does. */
const widget = () => {
  let player;
  return {
    initialize({ model }) {
      player = new Player(model);
      return () => player.dispose();
    },
    render({ el }) {
      const display = new Display(player, el);
      return () => display.dispose();
    },
  };
};

export default widget;
