// The form that starts the next sale, by POST /sales, and the number of the sale that is shown.

// The sale that the notice is about. The notice disappears when that sale has ended, and an error at the next click.
// Figures that were requested before the click may come after its answer; they are of an older sale.
let noticeIsFor = 0;

// Not `disabled`: a button that has the focus would lose it.
function allowStart(can) {
  const button = byId('start-button');
  button.setAttribute('aria-disabled', `${!can}`);
  setText(button, can ? 'Start a sale' : 'A sale is running');
}

async function start(event) {
  event.preventDefault();
  if (byId('start-button').getAttribute('aria-disabled') === 'true') return;
  allowStart(false);
  let notice = '';
  noticeIsFor = Infinity;
  try {
    const answer = await fetch('sales', {
      method: 'POST',
      headers: {'Content-Type': 'application/json'},
      body: JSON.stringify({arrival_seconds: Number(byId('speed').value)}),
    });
    const body = await answer.json();
    if (answer.ok) noticeIsFor = body.sale;
    notice = answer.ok ? `sale ${body.sale} starts` : body.error.message;
  } catch (error) {
    notice = 'the program has ended';
  }
  setText(byId('notice'), notice);
}

function showNumber({number, can_start}) {
  setText(byId('number'), count(number));
  allowStart(can_start);
  if (can_start && number >= noticeIsFor) setText(byId('notice'), '');
}

byId('start').addEventListener('submit', start);
