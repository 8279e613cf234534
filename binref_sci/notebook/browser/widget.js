// The widget as anywidget wants it.

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
